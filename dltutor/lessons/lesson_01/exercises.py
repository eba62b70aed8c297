"""Lesson 01, in words."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.kit.exercise import Exercise
from dltutor.lessons.kit.forms import choice
from dltutor.lessons.lesson_01 import diagnose, fix, transfer

EXERCISES: Final = (
    Exercise(
        name="01.predict",
        title="What does the loop see of one bad file?",
        grader=choice(
            "b",
            {
                "a": "No worker died. Look at the row `workers` of the Observation: both were "
                "still running when the error reached the loop, and the reason came with it.",
                "b": "The loop gets an exception of the same type, and with it, as text, "
                "every line that the worker went through. What is lost is smaller: read on.",
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
        grader=diagnose.GRADER,
        hints=(
            "The Observation with 0 workers counts the batches that came before the error.",
            "Batches are made in order: batch b holds the samples from 8 * b on, eight of them.",
            "`for index in range(8 * b, 8 * b + 8): images[index]` stops at the one you want; "
            "print the index before each.",
        ),
    ),
    Exercise(
        name="01.fix",
        title="Deliver every usable image, account for the rest",
        grader=fix.GRADER,
        hints=(
            "Decide before the first epoch which samples exist: `__len__` has to know.",
            "Opening an image reads its first bytes. Only loading all of it, the way that "
            "`__getitem__` will, shows whether it can be used; and several types of error can "
            "come of it, not all of them an `OSError`.",
            "In `__init__`, for each listed path: `try` to load it; `except (OSError, "
            "Image.DecompressionBombError) as error`, keep `self.quarantined[path] = ...`; "
            "otherwise keep the entry. And where do three channels come from? `convert`.",
        ),
    ),
    Exercise(
        name="01.transfer",
        title="Fix the dataset that never fails",
        grader=transfer.GRADER,
        hints=(
            "Nothing raises, so look at what arrives: how many readings are zero all through?",
            "The `except` turns every failure into data. Let a reading prove itself once, in "
            "`__init__`: it loads, and it holds 3 axes x 128 steps.",
            "An empty file raises `EOFError`, a missing one `FileNotFoundError`, one cut short "
            "`ValueError`; a reading of another shape raises nothing, so `raise ValueError(...)` "
            "yourself and catch all of them in one place.",
        ),
    ),
)
