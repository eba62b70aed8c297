"""Lesson 12: silently the same. The notebook imports these names."""

from dltutor.lessons.engine.sources import show_source
from dltutor.lessons.lesson_12.helpers import generators, torchrun
from dltutor.lessons.lesson_12.job import ByRankAndWorker, census, streamed

__all__ = [
    "ByRankAndWorker",
    "census",
    "generators",
    "show_source",
    "streamed",
    "torchrun",
]
