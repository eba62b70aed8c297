"""Collect the names that notebook 06 (handles that can't be pickled, and start methods) imports."""

from dltutor.failures.tools.handles import own_folder as own_folder
from dltutor.failures.unpicklable_handle import Records as Records
from dltutor.failures.unpicklable_handle import records_folder as records_folder
from dltutor.lessons.engine.sources import show_source as source  # noqa: F401
from dltutor.lessons.lesson_06.helpers import ON_ARRIVAL as ON_ARRIVAL
from dltutor.lessons.lesson_06.helpers import Tiles as Tiles
from dltutor.lessons.lesson_06.helpers import costs as costs
from dltutor.lessons.lesson_06.helpers import hide_the_warning as hide_the_warning
from dltutor.lessons.lesson_06.helpers import told as told
