"""Collect the names that notebook 11 (shared memory and open files run out) imports."""

from dltutor.failures import orphaned_segments as orphaned_segments
from dltutor.failures import shm_exhausted as shm_exhausted
from dltutor.failures import too_many_open_files as too_many_open_files
from dltutor.failures.data.sentences import Sentences as Sentences
from dltutor.failures.data.sentences import as_list as as_list
from dltutor.failures.shm_exhausted import Slices as Slices
from dltutor.failures.shm_exhausted import as_arrays as as_arrays
from dltutor.failures.too_many_open_files import count_classes as count_classes
from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_11.helpers import confined as confined
from dltutor.lessons.lesson_11.helpers import held as held
from dltutor.lessons.lesson_11.helpers import last_words as last_words
from dltutor.lessons.lesson_11.helpers import read_after_close as read_after_close
from dltutor.lessons.lesson_11.helpers import what_it_costs as what_it_costs
