"""Collect the names that notebook 12 (silently the same) imports."""

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
