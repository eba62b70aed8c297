"""Lesson 06: handles that cannot be pickled, and start methods. What its notebook imports."""

from dltutor.failures.kit.handles import own_folder
from dltutor.failures.unpicklable_handle import KINDS, Records, records_folder
from dltutor.lessons.kit.sources import show_source as source
from dltutor.lessons.lesson_06.material import (
    ON_ARRIVAL,
    Tiles,
    costs,
    hide_the_warning,
    told,
)
from dltutor.lessons.lesson_06.travel import import_file

__all__ = [
    "KINDS",
    "ON_ARRIVAL",
    "Records",
    "Tiles",
    "costs",
    "hide_the_warning",
    "import_file",
    "own_folder",
    "records_folder",
    "source",
    "told",
]
