"""Lesson 09: copy-on-read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from dltutor.failures.material.captions import Captions, PackedCaptions
from dltutor.lessons.kit.exercise import Exercise, choice
from dltutor.lessons.kit.outcome import Result, correct, could_not_check, not_attempted, not_yet
from dltutor.lessons.lesson_09 import rewrite
from dltutor.lessons.lesson_09.boxes import TRANSFER
from dltutor.lessons.lesson_09.captions_task import FIVE, MEND, fresh_captions
from dltutor.lessons.lesson_09.growth import PATIENCE, Run, measure, private_memory_is_known

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


def _diagnose(answer: Any) -> Result:
    if answer is None or answer is ...:
        return not_attempted(
            'set `grow_too` to the letters of those that grow, such as {"A", "D"}.'
        )
    if not isinstance(answer, Iterable) or not all(isinstance(each, str) for each in answer):
        return not_yet(f'The answer is a set of letters, such as {{"A", "D"}}; got {answer!r:.40}.')
    chosen = {each.strip().upper() for each in answer} - {"", ",", " "}
    if unknown := sorted(chosen - FIVE.keys()):
        return not_yet(f"{unknown[0]!r:.20} is none of the five. They are A, B, C, D and E.")
    private_memory_is_known()
    wrong = sorted(_GROWING - chosen) or sorted(chosen - _GROWING)
    listed = _grown_by(Captions)
    for letter in wrong[:1] or FIVE:
        grown = _grown_by(FIVE[letter])
        if (grown > 0.4 * listed) != (letter in _GROWING) or listed < 2:
            return could_not_check(
                f"measured here, in each worker: {letter} {grown:.0f} MB, the list {listed:.0f} MB."
            )
    if wrong:
        does = "grows" if letter in _GROWING else "does not grow"
        return not_yet(
            f"{letter} {does}: {grown:.0f} MB in each worker, the list {listed:.0f} MB. "
            f"{_ABOUT[letter]}"
        )
    return correct(
        "A, B and E grow like the list, C and D do not. What counts is neither the container nor "
        "what you have in memory, but whether a sample makes the worker touch Python objects that "
        "main has made."
    )


def _grown_by(kind: Callable[[Path], Any]) -> float:
    """MB in each worker, more than with packed captions."""
    return _run(kind).more_than(_run(PackedCaptions))


@cache  # none of these is an answer: once in a kernel is enough
def _run(kind: Callable[[Path], Any]) -> Run:
    with fresh_captions(_COUNT) as path:
        return measure(kind(path), _READ)


EXERCISES: Final = (
    Exercise(
        name="09.predict",
        title="How much does a worker grow that only reads?",
        grade=choice(
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
        grade=_diagnose,
        hints=(
            "For each of the five: which Python objects does `__getitem__` touch that were made "
            "in main?",
            "The container is not what matters. A pointer in an array leads to the same object as "
            "a pointer in a list.",
            "C has no Python objects before a sample is asked for. D has them and never reads one.",
        ),
        runs="reads each of the five with 2 workers, and two others to compare with",
        at_most=7 * PATIENCE,
    ),
    Exercise(
        name="09.fix",
        title="Keep the captions so that no worker grows",
        grade=partial(rewrite.grade, MEND),
        hints=(
            "Only `__init__` decides how the captions are kept. `__getitem__` may make a string "
            "when it is asked for one: that object is the worker's own.",
            "Keep bytes, not objects: one array for all of them. A caption is found by its number "
            "if all are of the same width, or if a second array says where each begins.",
            "The short way: `np.array([line.encode() for line in lines])` has a dtype such as "
            "`S60`, so no object for each, and an element of it has `.decode()`.",
        ),
        runs="makes your class on a fresh file and reads it with 2 workers, beside the broken one",
        at_most=rewrite.AT_MOST,
    ),
    Exercise(
        name="09.transfer",
        title="Keep boxes of any number so that no worker grows",
        grade=partial(rewrite.grade, TRANSFER),
        hints=(
            "Count the Python objects: a list for each image, one for each box, and a number for "
            "each of its four values.",
            "One array can hold the rows of all images, one below the other. What else has to be "
            "known to find those of image i, also if it has none?",
            "`self.starts = np.cumsum([0, *map(len, listed)])`: image i has the rows from "
            "`starts[i]` up to `starts[i + 1]`.",
        ),
        runs="makes your class on a fresh file and reads it with 2 workers, beside the broken one",
        at_most=rewrite.AT_MOST,
    ),
)
