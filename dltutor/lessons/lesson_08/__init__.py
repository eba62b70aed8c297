"""Collect the names that notebook 08 (seeing memory) imports."""

from dltutor.failures.prefetch_budget import Recordings as Recordings
from dltutor.failures.tools.contract import load as load
from dltutor.failures.view_of_a_giant import Excerpts as Excerpts
from dltutor.lessons.lesson_08.helpers import four_jobs as four_jobs
from dltutor.lessons.lesson_08.helpers import moment as moment
from dltutor.lessons.lesson_08.helpers import predicted_and_measured as predicted_and_measured
from dltutor.lessons.lesson_08.helpers import recordings as recordings
