"""Collect the names that notebook 07 (the loop that never starts) imports."""

from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.lessons.lesson_07.helpers import marked
from dltutor.lessons.lesson_07.transfer import forked_half_way
from dltutor.observation.texts import tidy

__all__ = ["Pairs", "forked_half_way", "marked", "pairs_folder", "tidy"]
