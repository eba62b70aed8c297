"""Lesson 14: the incident room. What its notebook imports."""

from dltutor.lessons.lesson_14.material import Room, causes, enter
from dltutor.lessons.lesson_14.reports import Report

__all__ = ["Report", "Room", "causes", "enter"]
