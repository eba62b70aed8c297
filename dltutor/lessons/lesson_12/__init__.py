"""Collect the names that notebook 12 (silently the same) imports."""

from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_12.helpers import generators as generators
from dltutor.lessons.lesson_12.helpers import torchrun as torchrun
from dltutor.lessons.lesson_12.job import ByRankAndWorker as ByRankAndWorker
from dltutor.lessons.lesson_12.job import census as census
from dltutor.lessons.lesson_12.job import streamed as streamed
