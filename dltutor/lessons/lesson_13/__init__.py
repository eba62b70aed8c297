"""Collect the names that notebook 13 (how many workers) imports."""

from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_13.costs import processes_started as processes_started
from dltutor.lessons.lesson_13.fix import counted as counted
from dltutor.lessons.lesson_13.helpers import draw_curves as draw_curves
from dltutor.lessons.lesson_13.helpers import eight_against_none as eight_against_none
from dltutor.lessons.lesson_13.helpers import four_jobs as four_jobs
from dltutor.lessons.lesson_13.helpers import photo as photo
from dltutor.lessons.lesson_13.helpers import smallest_good as smallest_good
from dltutor.lessons.lesson_13.helpers import step_costs as step_costs
