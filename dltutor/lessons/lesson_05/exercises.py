"""Lesson 05's exercises: inherited handles."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_05 import fix, transfer

EXERCISES: Final = exercises_of("05", fix=fix.GRADER, transfer=transfer.GRADER)
