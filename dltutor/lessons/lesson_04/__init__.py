"""Collect the names that notebook 04 (what a worker changes stays in the worker) imports."""

from dltutor.lessons.lesson_04.helpers import CountedClips as CountedClips
from dltutor.lessons.lesson_04.helpers import Headlines as Headlines
from dltutor.lessons.lesson_04.helpers import ask_every_process as ask_every_process
from dltutor.lessons.lesson_04.helpers import make_headlines as make_headlines
from dltutor.lessons.lesson_04.helpers import side_by_side as side_by_side
from dltutor.lessons.lesson_04.helpers import what_arrives as what_arrives
from dltutor.lessons.lesson_04.runs import SlowMotion as SlowMotion
