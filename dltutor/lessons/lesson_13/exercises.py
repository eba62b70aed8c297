"""Lesson 13's exercises: how many workers."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_10.exercises import matched
from dltutor.lessons.lesson_13 import fix, transfer

_LIMITS: Final = {"A": "sending", "B": "waiting", "C": "training", "D": "computing"}

EXERCISES: Final = exercises_of(
    "13", diagnose=matched(_LIMITS, "limit"), fix=fix.GRADER, transfer=transfer.GRADER
)
