"""Lesson 00's exercises: one small one of each kind, to learn how exercises work."""

from __future__ import annotations

from functools import partial
from typing import Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import a_whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_yet

_MISREAD: Final = {
    0: "the-worker",
    8: "batches",
    9: "batch-from-1",
    15: "last-one",
    17: "position",
}


def _read_off(number: int) -> Result:
    if number != 16:
        not_yet(_MISREAD.get(number, "other-index"), number=number)
    return correct()


_INDEX: Final = partial(a_whole_number, blank_code="no-index", other_code="not-an-index")

EXERCISES: Final = exercises_of("00", read=Grader(_INDEX, _read_off))
