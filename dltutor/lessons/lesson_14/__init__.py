"""Lesson 14, the incident room: the names that its notebook imports."""

from dltutor.lessons.lesson_14.material import Room, causes, enter
from dltutor.lessons.lesson_14.reports import Report

__all__ = ["Report", "Room", "causes", "enter"]
