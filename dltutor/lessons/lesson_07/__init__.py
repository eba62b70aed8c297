"""Lesson 07: the loop that never starts. What its notebook imports."""

from dltutor.failures.held_lock import Cache
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.lessons.lesson_07.material import CASES, Server, marked
from dltutor.observation.texts import tidy
from dltutor.tables import Table

__all__ = ["CASES", "Cache", "Pairs", "Server", "Table", "marked", "pairs_folder", "tidy"]
