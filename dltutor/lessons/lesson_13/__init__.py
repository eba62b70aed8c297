"""Lesson 13: how many workers. What its notebook imports."""

from dltutor.failures.nested_persistent import compare
from dltutor.lessons.kit.sources import show_source
from dltutor.lessons.lesson_13.fix import counted
from dltutor.lessons.lesson_13.material import (
    Reviews,
    draw_curves,
    eight_against_none,
    four_jobs,
    photo,
    processes_started,
)
from dltutor.lessons.lesson_13.transfer import smallest_good

__all__ = [
    "Reviews",
    "compare",
    "counted",
    "draw_curves",
    "eight_against_none",
    "four_jobs",
    "photo",
    "processes_started",
    "show_source",
    "smallest_good",
]
