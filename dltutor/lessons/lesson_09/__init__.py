"""Collect the names that notebook 09 (copy-on-read) imports."""

from dltutor.failures import copy_on_read
from dltutor.failures.data.captions import shared_captions
from dltutor.lessons.engine.memory import room
from dltutor.lessons.lesson_09.helpers import (
    count_in,
    draw,
    growth_of_each,
    memory_of,
    size_of,
)
from dltutor.lessons.lesson_09.transfer import Boxes, shared_boxes
from dltutor.tables import Table, size

__all__ = [
    "Boxes",
    "Table",
    "copy_on_read",
    "count_in",
    "draw",
    "growth_of_each",
    "memory_of",
    "room",
    "shared_boxes",
    "shared_captions",
    "size",
    "size_of",
]
