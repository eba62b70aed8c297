"""Lesson 14: the incident room. The notebook imports these names."""

from dltutor.lessons.lesson_14.helpers import Room, causes, enter
from dltutor.lessons.lesson_14.reports import Report

__all__ = ["Report", "Room", "causes", "enter"]
