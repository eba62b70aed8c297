"""Lesson 01's exercises: what a bad file does to a loader, and how to account for it."""

from __future__ import annotations

from typing import Any, Final

from PIL import ImageFile

from dltutor.failures.corrupt_images import Images
from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import blank, shown, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_01 import fix, transfer
from dltutor.lessons.lesson_01.material import lesson_images


def _index(answer: Any) -> int:
    if blank(answer):
        not_attempted("no-index")
    number = whole_number(answer)
    if number is None or number < 0:
        not_yet("not-an-index", answer=shown(answer))
    return number


def _first_bad(answer: int) -> tuple[int, int, str, str]:
    images = Images(lesson_images())
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # fix 1 may have been left on
    index, path, error = -1, "", ""
    while not error:
        index += 1
        try:
            images[index]
        except Exception as raised:
            path, error = images.listed[index][0], f"{type(raised).__name__}: {raised}"
    return answer, index, path, error


def _judge(evidence: tuple[int, int, str, str]) -> Result:
    answer, first, path, error = evidence
    if answer > first:
        not_yet("fails-earlier", answer=answer)
    if answer < first:
        not_yet("right-batch" if answer // 8 == first // 8 else "loads", answer=answer)
    return correct(answer=answer, path=path, error=error)


EXERCISES: Final = exercises_of(
    "01",
    diagnose=Grader(_first_bad, _judge, _index, at_most=10),
    fix=fix.GRADER,
    transfer=transfer.GRADER,
)
