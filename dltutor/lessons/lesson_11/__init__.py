"""Collect the names that notebook 11 (shared memory and open files run out) imports."""

from dltutor.failures import orphaned_segments, shm_exhausted, too_many_open_files
from dltutor.failures.data.sentences import Sentences, as_list
from dltutor.failures.shm_exhausted import Slices, as_arrays
from dltutor.failures.too_many_open_files import count_classes
from dltutor.lessons.engine.sources import show_source
from dltutor.lessons.lesson_11.helpers import (
    confined,
    held,
    last_words,
    read_after_close,
    what_it_costs,
)

__all__ = [
    "Sentences",
    "Slices",
    "as_arrays",
    "as_list",
    "confined",
    "count_classes",
    "held",
    "last_words",
    "orphaned_segments",
    "read_after_close",
    "shm_exhausted",
    "show_source",
    "too_many_open_files",
    "what_it_costs",
]
