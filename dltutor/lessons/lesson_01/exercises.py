"""Lesson 01's exercises: what a bad file does to a loader, and how to account for it."""

from __future__ import annotations

from typing import Any, Final

from PIL import ImageFile

from dltutor.failures.corrupt_images import Images
from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import a_whole_number, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.lesson_01.material import lesson_images


def _index(answer: Any) -> int:
    number = a_whole_number(answer, blank_code="no-index", other_code="not-an-index")
    if number < 0:
        not_yet("not-an-index", answer=shown(answer))
    return number


def _first_bad(answer: int) -> tuple[int, int, str, str]:
    images = Images(lesson_images())
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # fix 1 may have been left on
    for index, (path, _) in enumerate(images.listed):
        try:
            images[index]
        except Exception as raised:
            return answer, index, path, f"{type(raised).__name__}: {raised}"
    raise AssertionError("one of the lesson's images should be bad")


def _judge(evidence: tuple[int, int, str, str]) -> Result:
    answer, first, path, error = evidence
    if answer > first:
        not_yet("fails-earlier", answer=answer)
    if answer < first:
        not_yet("right-batch" if answer // 8 == first // 8 else "loads", answer=answer)
    return correct(answer=answer, path=path, error=error)


EXERCISES: Final = exercises_of("01", diagnose=Grader(_first_bad, _judge, _index, at_most=10))
