"""Grade "01.diagnose": the first sample that fails, measured and not known beforehand."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from dltutor.failures.corrupt_images import Images, shared_images
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import blank, shown, whole_number
from dltutor.lessons.kit.outcomes import Result, correct, not_attempted, not_yet

_BATCH_SIZE: Final = 8  # of the lesson's loader


@dataclass(frozen=True)
class Failing:
    """The lesson's samples that fail.

    Args:
        answer: The index that was answered.
        files: The listed paths, in order.
        errors: Index of each sample that fails -> the error, in words.
    """

    answer: int
    files: tuple[str, ...]
    errors: dict[int, str]


def look(answer: Any) -> int:
    """The answer, if it is a whole number."""
    if blank(answer):
        not_attempted("set `first_bad` to the index of the first sample that fails.")
    number = whole_number(answer)
    if number is None and isinstance(answer, (str, PurePath)):
        not_yet(
            f"{shown(str(answer))} is a file, and the loader asks for samples by number. Which "
            "index does it stand at in `listed`?"
        )
    if number is None:
        not_yet(f"an index is a whole number, got {shown(answer)}.")
    return number


def gather(answer: int) -> Failing:
    """Load every image of the lesson once."""
    images = Images(shared_images())
    errors = {}
    with warnings.catch_warnings():
        # A file that does not load stays open for a moment.
        warnings.simplefilter("ignore", ResourceWarning)
        for index in range(len(images)):
            try:
                images[index]
            except Exception as error:
                text = f"`{type(error).__name__}: {error}`"
                errors[index] = text.replace(f"{images.root}/", "")
    return Failing(answer, tuple(path for path, _ in images.listed), errors)


def judge(failing: Failing) -> Result:
    """Correct if the answer is the first sample that fails."""
    answer, count, first = failing.answer, len(failing.files), min(failing.errors)
    if answer == first:
        return correct(
            f"Sample {first} is the first that fails: {failing.errors[first]}. "
            f"Its file is `{failing.files[first]}`."
        )
    if not 0 <= answer < count:
        not_yet(f"there is no sample {answer}: they run from 0 to {count - 1}.")
    of_the_batch = {
        first // _BATCH_SIZE: "the number of the batch that fails, and sample {0} loads. Which "
        "samples are in that batch?",
        first % _BATCH_SIZE: "the place within its batch, and sample {0} loads. How many samples "
        "came in the batches before it?",
        first
        + 1: "one too far, if you counted from 1: indices count from 0, and sample {0} loads.",
    }
    if answer in of_the_batch and answer not in failing.errors:
        not_yet(f"{answer} is {of_the_batch[answer].format(answer)}")
    if answer in failing.errors:
        not_yet(f"sample {answer} does fail, and it is not the first that does.")
    not_yet(
        f"sample {answer} loads. With 0 workers the epoch ends in one batch: try its samples one "
        "by one."
    )


GRADER: Final = Grader(
    gather=gather, judge=judge, look=look, runs="loads each image once", at_most=10
)
