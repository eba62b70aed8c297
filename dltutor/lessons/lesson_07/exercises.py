"""Lesson 07's exercises: the loop that never starts."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_07 import fix, transfer

EXERCISES: Final = exercises_of("07", fix=fix.GRADER, transfer=transfer.GRADER)
