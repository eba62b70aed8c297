"""How it is practised: exercises, their checks and hints, and progress."""

from dltutor.exercises.check import EXERCISES, CheckFailed, check, hint, progress
from dltutor.exercises.exercise import Exercise
from dltutor.exercises.outcome import Outcome, Result

__all__ = [
    "EXERCISES",
    "CheckFailed",
    "Exercise",
    "Outcome",
    "Result",
    "check",
    "hint",
    "progress",
]
