"""Lesson 00's exercises: one small one of each kind, to learn how exercises work."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import blank, shown, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_00 import fix

_MISREAD: Final = {
    0: "the-worker",
    8: "batches",
    9: "batch-from-1",
    15: "last-one",
    17: "position",
}


def _index(answer: Any) -> int:
    if blank(answer):
        not_attempted("no-index")
    number = whole_number(answer)
    if number is None:
        not_yet("not-an-index", answer=shown(answer))
    return number


def _read_off(number: int) -> Result:
    if number != 16:
        not_yet(_MISREAD.get(number, "other-index"), number=number)
    return correct()


EXERCISES: Final = exercises_of("00", read=Grader(_index, _read_off), fix=fix.GRADER)
