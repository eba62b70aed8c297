"""Collect the names that notebook 13 (how many workers) imports."""

from dltutor.lessons.engine.sources import show_source
from dltutor.lessons.lesson_13.costs import processes_started
from dltutor.lessons.lesson_13.fix import counted
from dltutor.lessons.lesson_13.helpers import (
    draw_curves,
    eight_against_none,
    four_jobs,
    photo,
    smallest_good,
    step_costs,
)

__all__ = [
    "counted",
    "draw_curves",
    "eight_against_none",
    "four_jobs",
    "photo",
    "processes_started",
    "show_source",
    "smallest_good",
    "step_costs",
]
