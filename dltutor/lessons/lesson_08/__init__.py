"""Collect the names that notebook 08 (seeing memory) imports."""

from dltutor.failures.prefetch_budget import Recordings
from dltutor.failures.tools.contract import load
from dltutor.failures.view_of_a_giant import Excerpts
from dltutor.lessons.lesson_08.helpers import (
    four_jobs,
    moment,
    predicted_and_measured,
    recordings,
)

__all__ = [
    "Excerpts",
    "Recordings",
    "four_jobs",
    "load",
    "moment",
    "predicted_and_measured",
    "recordings",
]
