"""Grade "01.diagnose", which asks for the index of the first image that fails."""

from __future__ import annotations

from typing import Final

from PIL import ImageFile

from dltutor.failures.corrupt_images import Images
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.lesson_01.helpers import lesson_images


def gather(answer: int) -> tuple[int, int, str, str]:
    """Return the answer, the right index, and the bad image's file and error."""
    images = Images(lesson_images())
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # because a cell may have left this on, as in "Fix 1"
    for index, (path, _) in enumerate(images.listed):
        try:
            images[index]
        except Exception as raised:
            return answer, index, path, f"{type(raised).__name__}: {raised}"
    raise AssertionError("one of the lesson's images should be bad")


def judge(evidence: tuple[int, int, str, str]) -> Result:
    """Return "Correct" for the index of the first image that fails, or raise `Rejected`."""
    answer, first, path, error = evidence
    if answer < 0:
        not_yet("not-a-number", answer=answer)
    if answer > first:
        not_yet("fails-earlier", answer=answer)
    if answer < first:
        not_yet("right-batch" if answer // 8 == first // 8 else "loads", answer=answer)
    return correct(answer=answer, path=path, error=error)


GRADER: Final = Grader(gather, judge, a_whole_number, at_most=10)
