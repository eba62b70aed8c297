"""Lesson 14's exercises: the incident room, with a ticket each."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import exercises_of
from dltutor.lessons.lesson_14 import images, ranks, table, text, validation, video

EXERCISES: Final = exercises_of(
    "14",
    images=images.GRADER,
    text=text.GRADER,
    table=table.GRADER,
    video=video.GRADER,
    validation=validation.GRADER,
    ranks=ranks.GRADER,
)
