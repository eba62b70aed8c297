"""Lesson 01, in words."""

from __future__ import annotations

from typing import Any, Final

from PIL import ImageFile

from dltutor.failures.corrupt_images import Images
from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, shown, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_01 import fix, transfer
from dltutor.lessons.lesson_01.material import lesson_images


def _index(answer: Any) -> int:
    if blank(answer):
        not_attempted("set `first_bad` to the index of the first sample that fails.")
    number = whole_number(answer)
    if number is None or number < 0:
        not_yet(f"an index is a whole number, counted from 0, got {shown(answer)}.")
    return number


def _first_bad(answer: int) -> tuple[int, int, str]:
    images = Images(lesson_images())
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # fix 1 may have been left on
    index, error = -1, ""
    while not error:
        index += 1
        try:
            images[index]
        except Exception as raised:
            error = f"`{images.listed[index][0]}`: `{type(raised).__name__}: {raised}`"
    return answer, index, error


def _judge(evidence: tuple[int, int, str]) -> Result:
    answer, first, error = evidence
    if answer > first:
        not_yet(f"a sample before {answer} fails already.")
    if answer < first:
        near = " It is in the right batch: try the next." * (answer // 8 == first // 8)
        not_yet(f"sample {answer} loads.{near or ' Which samples are in the batch that failed?'}")
    return correct(f"Sample {answer} is the first that fails, {error}.")


EXERCISES: Final = (
    Exercise(
        name="01.predict",
        title="What does the loop see of one bad file?",
        grader=choice(
            "b",
            {
                "a": "No worker died. Look at the row `workers` of the Observation: both were "
                "still running when the error reached the loop, and the reason came with it.",
                "b": "The loop gets an `OSError` too, with the worker's traceback in its text.",
                "c": "Nothing is skipped. Look at the row `got` of the Observation: the epoch "
                "ended at the bad file, and the healthy ones behind it never came.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and read what comes back.",
            "A worker runs your `__getitem__` inside a `try` of torch's.",
            "Look for the words `Original Traceback` in the raw message.",
        ),
    ),
    Exercise(
        name="01.diagnose",
        title="Which sample fails first?",
        grader=Grader(_first_bad, _judge, _index, runs="loads image after image", at_most=10),
        hints=(
            "The loader does not shuffle. How many batches came before the error?",
            "In order, batch b holds the samples from 8 * b on, eight of them.",
            "`for i in range(8 * b, 8 * b + 8): print(i); images[i]` stops at the one you want.",
        ),
    ),
    Exercise(
        name="01.fix",
        title="Deliver every usable image, account for the rest",
        grader=fix.GRADER,
        hints=(
            "Decide before the first epoch which samples exist: `__len__` has to know.",
            "Opening a file reads its header only. Decode every pixel, as `__getitem__` will.",
            "In `__init__`, for each listed path: `try: load_on_white(self.root / path)`, `except "
            "Exception as error: self.quarantined[path] = repr(error)`. Then keep in `self.listed` "
            "what is not there, and let `__getitem__` use `load_on_white` too.",
        ),
    ),
    Exercise(
        name="01.transfer",
        title="Fix the dataset that never fails",
        grader=transfer.GRADER,
        hints=(
            "Nothing raises, so look at what arrives: how many readings are zero all through, and "
            "which class do they have?",
            "The `except` turns every failure into data. Let a reading prove itself once, in "
            "`__init__`: it loads, and its shape is (3, 128).",
            "`reshape(3, 128)` takes a reading of 128 x 3 and scrambles it without a word: compare "
            "`reading.shape`, and `raise ValueError(...)` where the other failures are caught.",
        ),
    ),
)
