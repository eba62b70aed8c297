"""Lesson 01: corrupt images."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any, Final

from dltutor.failures.corrupt_images import Pictures, shared_pictures
from dltutor.lessons.kit.exercise import Exercise, choice
from dltutor.lessons.kit.outcome import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_01 import quarantine
from dltutor.lessons.lesson_01.pictures_task import MEND
from dltutor.lessons.lesson_01.readings_task import TRANSFER

_BATCH_SIZE: Final = 8  # of the lesson's loader


def _diagnose(answer: Any) -> Result:
    if answer is None or answer is ...:
        return not_attempted("set `first_bad` to the index of the first sample that fails.")
    pictures = Pictures(shared_pictures())
    failing = [index for index in range(len(pictures)) if _error_at(pictures, index)]
    first = failing[0]
    if isinstance(answer, (str, Path)):
        return not_yet(
            f"{str(answer)!r} is a file, and the loader asks for samples by number. Which index "
            "does it stand at in `listed`?"
        )
    if isinstance(answer, bool) or not isinstance(answer, int):
        return not_yet(f"An index is a whole number, got {answer!r:.40}.")
    if answer == first:
        return correct(
            f"Sample {first} is the first that fails: {_error_at(pictures, first)}. "
            f"Its file is `{pictures.listed[first][0]}`."
        )
    if not 0 <= answer < len(pictures):
        return not_yet(f"There is no sample {answer}: they run from 0 to {len(pictures) - 1}.")
    if answer == first // _BATCH_SIZE:
        return not_yet(
            f"{answer} is the number of the batch that fails, and sample {answer} loads. Which "
            "samples are in that batch?"
        )
    if answer == first % _BATCH_SIZE:
        return not_yet(
            f"{answer} is the place within its batch, and sample {answer} loads. How many samples "
            "came in the batches before it?"
        )
    if answer == first + 1:
        return not_yet(f"Sample {answer} loads. Indices count from 0: are you one too far?")
    if answer in failing:
        return not_yet(f"Sample {answer} does fail, and it is not the first that does.")
    return not_yet(
        f"Sample {answer} loads. With 0 workers the epoch ends in one batch: try its samples one "
        "by one."
    )


def _error_at(pictures: Pictures, index: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # a file that does not load stays open for a moment
        try:
            pictures[index]
        except Exception as error:
            return f"`{type(error).__name__}: {error}`".replace(f"{pictures.root}/", "")
        return ""


EXERCISES: Final = (
    Exercise(
        name="01.predict",
        title="What does the loop see of one bad file?",
        grade=choice(
            "b",
            {
                "a": "`a`: no worker died. Look at the row `workers` of the Observation: both were "
                "still running when the error reached the loop, and the reason came with it.",
                "b": "`b`: the loop gets an exception of the same type, and with it, as text, "
                "every line that the worker went through. What is lost is smaller: read on.",
                "c": "`c`: nothing is skipped. Look at the row `got` of the Observation: the epoch "
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
        grade=_diagnose,
        hints=(
            "The Observation with 0 workers counts the batches that came before the error.",
            "Batches are made in order: batch b holds the samples from 8 * b on, eight of them.",
            "`for index in range(8 * b, 8 * b + 8): pictures[index]` stops at the one you want; "
            "print the index before each.",
        ),
        runs="loads each picture once",
        at_most=10,
    ),
    Exercise(
        name="01.fix",
        title="Deliver every usable picture, account for the rest",
        grade=partial(quarantine.grade, MEND),
        hints=(
            "Decide before the first epoch which samples exist: `__len__` has to know.",
            "Opening a picture reads its first bytes. Only loading all of it, the way that "
            "`__getitem__` will, shows whether it can be used; and several types of error can "
            "come of it, not all of them an `OSError`.",
            "In `__init__`, for each listed path: `try` to load it; `except (OSError, "
            "Image.DecompressionBombError) as error`, keep `self.quarantined[path] = ...`; "
            "otherwise keep the entry. And where do three channels come from? `convert`.",
        ),
        runs="makes your class on a fresh folder and runs it with 0 and with 2 workers",
        at_most=quarantine.AT_MOST,
    ),
    Exercise(
        name="01.transfer",
        title="Mend the dataset that never fails",
        grade=partial(quarantine.grade, TRANSFER),
        hints=(
            "Nothing raises, so look at what arrives: how many readings are zero all through?",
            "The `except` turns every failure into data. Let a reading prove itself once, in "
            "`__init__`: it loads, and it holds 3 axes x 128 steps.",
            "An empty file raises `EOFError`, a missing one `FileNotFoundError`, one cut short "
            "`ValueError`; a reading of another shape raises nothing, so `raise ValueError(...)` "
            "yourself and catch all of them in one place.",
        ),
        runs="makes your class on a fresh folder and runs it with 0 and with 2 workers",
        at_most=quarantine.AT_MOST,
    ),
)
