"""Lesson 02's exercises: what becomes of an exception on its way out of a worker."""

from __future__ import annotations

from functools import partial
from typing import Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import a_whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_yet

_RAISES: Final = 4  # the number of the step in the notebook's `steps`
_STEPS: Final = 6
_NUMBER: Final = partial(a_whole_number, blank_code="no-number", other_code="not-a-number")


def _step(number: int) -> Result:
    if number not in range(_STEPS):
        not_yet("no-step", number=number, last=_STEPS - 1)
    if number != _RAISES:
        not_yet(f"step-{number}")
    return correct()


EXERCISES: Final = exercises_of("02", diagnose=Grader(_NUMBER, _step))
