"""Collect the names that notebook 07 (the loop that never starts) imports."""

from dltutor.failures.lost_thread import Pairs as Pairs
from dltutor.failures.lost_thread import pairs_folder as pairs_folder
from dltutor.lessons.lesson_07.helpers import marked as marked
from dltutor.lessons.lesson_07.transfer import forked_half_way as forked_half_way
from dltutor.observation.texts import tidy as tidy
