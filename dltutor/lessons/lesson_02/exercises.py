"""Lesson 02's exercises: what becomes of an exception on its way out of a worker."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import blank, shown, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_02 import fix, transfer

_RAISES: Final = 4  # the number of the step in the notebook's `steps`
_STEPS: Final = 6


def _number(answer: Any) -> int:
    if blank(answer):
        not_attempted("no-number")
    number = whole_number(answer)
    if number is None:
        not_yet("not-a-number", answer=shown(answer))
    return number


def _step(number: int) -> Result:
    if number not in range(_STEPS):
        not_yet("no-step", number=number, last=_STEPS - 1)
    if number != _RAISES:
        not_yet(f"step-{number}")
    return correct()


EXERCISES: Final = exercises_of(
    "02", diagnose=Grader(_number, _step), fix=fix.GRADER, transfer=transfer.GRADER
)
