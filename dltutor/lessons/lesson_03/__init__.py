"""Lesson 03: workers that die. What its notebook imports."""

from dltutor.failures import dead_worker, leftover_iterator, misleading_exit
from dltutor.failures.dead_worker import Frames, decode, exit_code_alone
from dltutor.failures.material import scans
from dltutor.lessons.lesson_03.material import make_shards
from dltutor.tables import Table

__all__ = [
    "Frames",
    "Table",
    "dead_worker",
    "decode",
    "exit_code_alone",
    "leftover_iterator",
    "make_shards",
    "misleading_exit",
    "scans",
]
