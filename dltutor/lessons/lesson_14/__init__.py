"""Collect the names that notebook 14 (the incident room) imports."""

from dltutor.lessons.lesson_14.helpers import Room as Room
from dltutor.lessons.lesson_14.helpers import causes as causes
from dltutor.lessons.lesson_14.helpers import enter as enter
from dltutor.lessons.lesson_14.reports import Report as Report
