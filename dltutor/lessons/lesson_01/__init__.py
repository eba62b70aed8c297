"""Lesson 01: corrupt images. What its notebook imports."""

from dltutor.failures.corrupt_images import Images, VerifiedImages, shared_images
from dltutor.failures.material.images import SIDE
from dltutor.failures.none_in_batch import SkippingImages
from dltutor.lessons.lesson_01.material import AXES, STEPS, Readings, make_readings
from dltutor.tables import Table

__all__ = [
    "AXES",
    "SIDE",
    "STEPS",
    "Images",
    "Readings",
    "SkippingImages",
    "Table",
    "VerifiedImages",
    "make_readings",
    "shared_images",
]
