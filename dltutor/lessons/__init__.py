"""How it is practised: exercises, their checks and hints, and progress."""

from dltutor.lessons.kit.checking import EXERCISES, CheckFailed, check, hint, progress
from dltutor.lessons.kit.exercise import Exercise
from dltutor.lessons.kit.outcome import Outcome, Result

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
