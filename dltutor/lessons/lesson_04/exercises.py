"""Lesson 04's exercises: what a worker changes stays in the worker."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_04 import fix, transfer

EXERCISES: Final = exercises_of("04", fix=fix.GRADER, transfer=transfer.GRADER)
