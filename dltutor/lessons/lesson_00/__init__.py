"""Lesson 00: what a DataLoader is made of. What its notebook imports."""

from dltutor.failures import corrupt_images
from dltutor.tables import Table

__all__ = ["Table", "corrupt_images"]
