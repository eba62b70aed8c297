"""Lesson 03: workers that die. What its notebook imports."""

from dltutor.failures import dead_worker, misleading_exit
from dltutor.failures.dead_worker import decode, exit_code_alone, film_paths
from dltutor.failures.material.scans import evenly, read_scan, scan_paths, unpack
from dltutor.lessons.kit.sources import show_source as source
from dltutor.lessons.lesson_03.material import (
    confined,
    crumbs_in,
    deaths,
    last_lines,
    log_of,
    new_folder,
    reruns,
    side_by_side,
    stack_of,
)

__all__ = [
    "confined",
    "crumbs_in",
    "dead_worker",
    "deaths",
    "decode",
    "evenly",
    "exit_code_alone",
    "film_paths",
    "last_lines",
    "log_of",
    "misleading_exit",
    "new_folder",
    "read_scan",
    "reruns",
    "scan_paths",
    "side_by_side",
    "source",
    "stack_of",
    "unpack",
]
