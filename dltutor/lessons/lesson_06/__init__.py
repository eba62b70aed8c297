"""Lesson 06: handles that cannot be pickled, and start methods. What its notebook imports."""

from dltutor.failures.kit.handles import own_folder
from dltutor.failures.unpicklable_handle import KINDS, Records, records_folder
from dltutor.lessons.kit.sources import show_source as source
from dltutor.lessons.lesson_06.material import (
    ON_ARRIVAL,
    Loaded,
    Tiles,
    costs,
    hide_the_warning,
    private_copies,
    told,
    verify,
)

__all__ = [
    "KINDS",
    "ON_ARRIVAL",
    "Loaded",
    "Records",
    "Tiles",
    "costs",
    "hide_the_warning",
    "own_folder",
    "private_copies",
    "records_folder",
    "source",
    "told",
    "verify",
]
