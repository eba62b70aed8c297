"""Lesson 00, in words: one small exercise of each kind, to learn how exercises work."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, shown, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_00 import fix


def _index(answer: Any) -> int:
    if blank(answer):
        not_attempted("set `failing_index` to the index that you read off.")
    number = whole_number(answer)
    if number is None:
        not_yet(f"an index is one whole number, such as 3, not {shown(answer)}.")
    return number


def _read_off(number: int) -> Result:
    if number == 16:
        return correct(
            "16. Batches 0 to 7 had the samples 0 to 15, so 16 was next, alone in its batch, since "
            "`__len__` promises 17. `Pairs(levels)[16]` fails in main too, without any worker."
        )
    not_yet(
        {
            0: "The 0 in the title is the name of the worker, W0. It loads every other batch.",
            8: "8 batches came before the error. An index counts samples. How many were in them?",
            9: "The ninth batch is the one that failed. An index counts samples.",
            15: "Sample 15 arrived: it is the last of the 16 that came before the error.",
            17: "17 is `index + 1`, the position that the line tried to read. What was `index` "
            "then?",
        }.get(number, f"{number} is not it. Look at `got`: which samples came before the error?")
    )


EXERCISES: Final = (
    Exercise(
        name="00.predict",
        title="How many batches come before the error?",
        grader=choice(
            "b",
            {
                "a": "0 batches would mean that the first one fails. Run the next cell, and "
                "look at `got`: what can be made, up to the batch that fails, is delivered.",
                "b": "8 batches, then the error, on every run. With `in_order=True`, the "
                "default, the error takes the place of its batch: without a shuffle, the ninth.",
                "c": "9 batches would hold all 17 samples. Run the next cell, and look at `got`: "
                "one sample could not be made.",
                "d": "The workers may finish in any order, but by default main holds back a batch "
                "that is early. Nothing is shuffled, so the number is the same on every run.",
            },
        ),
        hints=(
            "Look at what `__len__` promises, and at what `__getitem__` reads for the last index.",
            "17 levels have 16 pairs of neighbors. By default batches are handed over in order, "
            "and an error takes the place of its batch.",
            "The samples 0 to 15 can be made, two to a batch. Sample 16 cannot.",
        ),
    ),
    Exercise(
        name="00.read",
        title="At which index did it fail?",
        grader=Grader(_index, _read_off),
        hints=(
            "The Observation does not name the index. The row `got` leads you to it.",
            "Without a shuffle the indices are dealt out in order, two to a batch, starting at 0. "
            "The samples before the error had the lower ones.",
            "16 samples came before the error. They had the indices 0 to 15.",
        ),
    ),
    Exercise(
        name="00.fix",
        title="Make every pair arrive",
        grader=fix.GRADER,
        hints=(
            "Compare two numbers: the samples in `got`, and `len(Pairs(levels))`.",
            "`__len__` is a promise: the loader asks for every index below it. How many pairs of "
            "neighbors do n levels have?",
            "n levels have n - 1 pairs of neighbors. `__len__` has to say so.",
        ),
    ),
)
