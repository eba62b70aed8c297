"""Collect the names that notebook 06 (handles that can't be pickled, and start methods) imports."""

from dltutor.failures.tools.handles import own_folder
from dltutor.failures.unpicklable_handle import Records, records_folder
from dltutor.lessons.engine.sources import show_source as source
from dltutor.lessons.lesson_06.helpers import (
    ON_ARRIVAL,
    Tiles,
    costs,
    hide_the_warning,
    told,
)

__all__ = [
    "ON_ARRIVAL",
    "Records",
    "Tiles",
    "costs",
    "hide_the_warning",
    "own_folder",
    "records_folder",
    "source",
    "told",
]
