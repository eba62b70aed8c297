"""Collect the names that notebook 04 (what a worker changes stays in the worker) imports."""

from dltutor.lessons.lesson_04.helpers import (
    CountedClips,
    Headlines,
    ask_every_process,
    make_headlines,
    side_by_side,
    what_arrives,
)
from dltutor.lessons.lesson_04.runs import SlowMotion

__all__ = [
    "CountedClips",
    "Headlines",
    "SlowMotion",
    "ask_every_process",
    "make_headlines",
    "side_by_side",
    "what_arrives",
]
