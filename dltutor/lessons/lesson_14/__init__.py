"""Collect the names that notebook 14 (the incident room) imports."""

from dltutor.lessons.lesson_14.helpers import Room, causes, enter
from dltutor.lessons.lesson_14.reports import Report

__all__ = ["Report", "Room", "causes", "enter"]
