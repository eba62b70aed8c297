"""Lesson 07: the loop that never starts. What its notebook imports."""

from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.lessons.lesson_07.material import Server, beside, marked
from dltutor.observation.texts import tidy

__all__ = ["Pairs", "Server", "beside", "marked", "pairs_folder", "tidy"]
