"""Collect the names that notebook 09 (copy-on-read) imports."""

from dltutor.failures import copy_on_read as copy_on_read
from dltutor.failures.data.captions import shared_captions as shared_captions
from dltutor.lessons.engine.memory import room as room
from dltutor.lessons.lesson_09.helpers import count_in as count_in
from dltutor.lessons.lesson_09.helpers import draw as draw
from dltutor.lessons.lesson_09.helpers import growth_of_each as growth_of_each
from dltutor.lessons.lesson_09.helpers import memory_of as memory_of
from dltutor.lessons.lesson_09.helpers import size_of as size_of
from dltutor.lessons.lesson_09.transfer import Boxes as Boxes
from dltutor.lessons.lesson_09.transfer import shared_boxes as shared_boxes
from dltutor.tables import Table as Table
from dltutor.tables import size as size
