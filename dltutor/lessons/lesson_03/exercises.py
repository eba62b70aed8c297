"""Lesson 03's exercises: workers that die."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_03 import fix, transfer

EXERCISES: Final = exercises_of("03", fix=fix.GRADER, transfer=transfer.GRADER)
