"""Lesson 12's exercises: randomness, streams, and ranks that repeat themselves."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_12 import fix, transfer

EXERCISES: Final = exercises_of("12", fix=fix.GRADER, transfer=transfer.GRADER)
