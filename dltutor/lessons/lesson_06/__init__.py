"""Lesson 06: handles that cannot be pickled, and start methods. What its notebook imports."""

from dltutor.failures import children_of_workers, global_only_in_parent, missing_main_guard
from dltutor.failures.kit.handles import own_folder
from dltutor.failures.main_only_class import Squares
from dltutor.failures.unpicklable_handle import KINDS, OwnHandle, Records, records_folder
from dltutor.lessons.lesson_06.files import import_file
from dltutor.lessons.lesson_06.material import Tiles, write_clips
from dltutor.tables import Table

__all__ = [
    "KINDS",
    "OwnHandle",
    "Records",
    "Squares",
    "Table",
    "Tiles",
    "children_of_workers",
    "global_only_in_parent",
    "import_file",
    "missing_main_guard",
    "own_folder",
    "records_folder",
    "write_clips",
]
