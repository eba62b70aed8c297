"""Lesson 04: what a worker changes stays in the worker. What its notebook imports."""

from dltutor.failures import global_state, mutated_in_place, reused_buffer, stale_epoch
from dltutor.failures.global_state import Readings, ReadingsWithSlots, ReadingsWithValue
from dltutor.lessons.lesson_04.material import (
    CROP,
    CountedClips,
    Headlines,
    Witness,
    counters,
    make_clips,
    make_headlines,
    stretches,
)
from dltutor.tables import Table

__all__ = [
    "CROP",
    "CountedClips",
    "Headlines",
    "Readings",
    "ReadingsWithSlots",
    "ReadingsWithValue",
    "Table",
    "Witness",
    "counters",
    "global_state",
    "make_clips",
    "make_headlines",
    "mutated_in_place",
    "reused_buffer",
    "stale_epoch",
    "stretches",
]
