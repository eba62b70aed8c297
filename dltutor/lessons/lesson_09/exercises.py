"""Lesson 09, in words; and the letters of "09.diagnose", which are measured before it is told."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dltutor.failures.material.captions import Captions, PackedCaptions
from dltutor.lessons.kit.exercise import Exercise, Grader
from dltutor.lessons.kit.forms import blank, choice, letter, shown
from dltutor.lessons.kit.outcomes import Result, correct, could_not_check, not_attempted, not_yet
from dltutor.lessons.lesson_09 import fix, transfer
from dltutor.lessons.lesson_09.growth import WITHIN, measure, private_memory_is_known
from dltutor.lessons.lesson_09.material import FIVE, write_captions

_GROWING: Final = frozenset("ABE")
_READ: Final = 16_000  # captions that each of the five is asked for
_COUNT: Final = 60_000
_PAGES: Final = "copied by pages of 4096 bytes, and there are some forty captions on a page"
_ABOUT: Final = {
    "A": "A tuple cannot be changed, but its strings have a count all the same.",
    "B": "The array holds pointers. What they point to are the same strings as in the list.",
    "C": "Its bytes lie one after the other in one buffer, and a string is made of them only when "
    "a sample is asked for.",
    "D": "The list is there, and nobody reads it. What is read is an array of numbers.",
    "E": "Each record is a dict with a caption in it: two objects to read instead of one.",
}


@dataclass(frozen=True)
class Grown:
    """By how much the workers grew.

    Args:
        chosen: The letters that the learner gave.
        listed: MB in each worker with the list of captions, more than with packed captions.
        by_letter: The same of the datasets that were measured: one that was told wrong, or all.
    """

    chosen: frozenset[str]
    listed: float
    by_letter: tuple[tuple[str, float], ...]


def look(answer: Any) -> frozenset[str]:
    """The letters, in upper case: of a set, a list, or a text such as "A, B and E"."""
    if blank(answer):
        not_attempted('set `grow_too` to the letters of those that grow, such as {"A", "D"}.')
    if isinstance(answer, str):
        answer = re.sub(r"\band\b|[^A-Za-z]", "", answer)
    given = list(answer) if isinstance(answer, Iterable) else [None]
    letters = {each: letter(each) for each in given if not isinstance(each, str) or each.strip()}
    if None in letters.values():
        odd = next(each for each, found in letters.items() if found is None)
        if isinstance(odd, str):
            not_yet(f"{shown(odd)} is none of the five. They are A, B, C, D and E.")
        not_yet(f'the answer is a set of letters, such as {{"A", "D"}}; got {shown(answer)}.')
    chosen = frozenset(found.upper() for found in letters.values() if found)
    if unknown := sorted(chosen - FIVE.keys()):
        not_yet(f"{unknown[0]!r:.20} is none of the five. They are A, B, C, D and E.")
    private_memory_is_known()
    return chosen


def gather(chosen: frozenset[str]) -> Grown:
    """Measure one of the five that the answer has wrong, or all; the list beside them."""
    path = Path(tempfile.mkdtemp(), "captions.txt")
    write_captions(path, _COUNT)

    def private(kind: Callable[[Path], Any]) -> float:
        return measure(kind(path), _READ).last

    packed = private(PackedCaptions)
    letters = _wrong(chosen)[:1] or [*FIVE]
    grown = tuple((each, max(0.0, private(FIVE[each]) - packed)) for each in letters)
    return Grown(chosen, max(0.0, private(Captions) - packed), grown)


def judge(grown: Grown) -> Result:
    """Correct if it is the letters of those that grow, and they do."""
    for each, by in grown.by_letter:
        if (by > 0.4 * grown.listed) != (each in _GROWING) or grown.listed < 2:
            could_not_check(
                f"measured here, in each worker: {each} {by:.0f} MB, the list "
                f"{grown.listed:.0f} MB."
            )
    if _wrong(grown.chosen):
        each, by = grown.by_letter[0]
        does = "grows" if each in _GROWING else "does not grow"
        not_yet(
            f"{each} {does}: {by:.0f} MB in each worker, the list {grown.listed:.0f} MB. "
            f"{_ABOUT[each]}"
        )
    return correct(
        "A, B and E grow like the list, C and D do not. What counts is neither the container nor "
        "what you have in memory, but whether a sample makes the worker touch Python objects that "
        "main has made."
    )


def _wrong(chosen: frozenset[str]) -> list[str]:
    return sorted(_GROWING - chosen) or sorted(chosen - _GROWING)


EXERCISES: Final = (
    Exercise(
        name="09.predict",
        title="How much does a worker grow that only reads?",
        grader=choice(
            "c",
            {
                "a": "`a`: nobody writes to the list, and yet USS went up in both workers. "
                "Somebody writes for you. Read on.",
                "b": "`b`: each worker had one caption in seventeen, but memory is not copied by "
                f"captions. It is {_PAGES}.",
                "c": "`c`: nearly the whole list, in each worker, for one caption in seventeen. "
                f"Memory is {_PAGES}: nearly every page has been read somewhere. Now find out who "
                "writes.",
                "d": "`d`: look at the first rows of the table: with the first batch each worker "
                "had a few MB of its own, far less than the list. Under fork nothing is copied at "
                "the start.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and compare.",
            "A forked worker shares main's memory until one of them writes to it. The unit is a "
            "page of 4096 bytes.",
            "Look at the USS of W0 with its first batch and with its last.",
        ),
    ),
    Exercise(
        name="09.diagnose",
        title="Which of five datasets grow in the workers?",
        grader=Grader(
            gather=gather,
            judge=judge,
            look=look,
            runs="reads each of the five with 2 workers, and two others to compare with",
            at_most=7 * WITHIN + 4,
        ),
        hints=(
            "For each of the five: which Python objects does `__getitem__` touch that were made "
            "in main?",
            "The container is not what matters. A pointer in an array leads to the same object as "
            "a pointer in a list.",
            "C has no Python objects before a sample is asked for. D has them and never reads one.",
        ),
    ),
    Exercise(
        name="09.fix",
        title="Keep the captions so that no worker grows",
        grader=fix.GRADER,
        hints=(
            "Only `__init__` decides how the captions are kept. `__getitem__` may make a string "
            "when it is asked for one: that object is the worker's own.",
            "Keep bytes, not objects: one array for all of them. A caption is found by its number "
            "if all are of the same width, or if a second array says where each begins.",
            "The short way: `np.array([line.encode() for line in lines])` has a dtype such as "
            "`S60`, so no object for each, and an element of it has `.decode()`.",
        ),
    ),
    Exercise(
        name="09.transfer",
        title="Keep boxes of any number so that no worker grows",
        grader=transfer.GRADER,
        hints=(
            "Count the Python objects: a list for each image, one for each box, and a number for "
            "each of its four values.",
            "One array can hold the rows of all images, one below the other. What else has to be "
            "known to find those of image i, also if it has none?",
            "`self.starts = np.cumsum([0, *map(len, listed)])`: image i has the rows from "
            "`starts[i]` up to `starts[i + 1]`.",
        ),
    ),
)
