"""Lesson 12: silently the same. What its notebook imports."""

from dltutor.failures.wrong_length import Windows, recording
from dltutor.lessons.engine.sources import show_source
from dltutor.lessons.lesson_12.job import ByRankAndWorker, census, streamed
from dltutor.lessons.lesson_12.material import generators, torchrun, warnings_of

__all__ = [
    "ByRankAndWorker",
    "Windows",
    "census",
    "generators",
    "recording",
    "show_source",
    "streamed",
    "torchrun",
    "warnings_of",
]
