"""Lesson 09, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_09 import fix, transfer

_GROWING: Final = frozenset("ABE")
_PAGES: Final = "by pages of 4096 bytes, and there are some forty captions on a page"
_ABOUT: Final = {
    "A": "A grows. A tuple cannot be changed, but each string in it has a count all the same.",
    "B": "B grows. The array holds pointers. What they point to are the same strings as in the "
    "list.",
    "C": "C does not grow. Its bytes lie one after the other in one buffer, and a string is made "
    "of them when a sample is asked for: that string is the worker's own.",
    "D": "D does not grow. The list is there, and no sample reads it. What is read is an array of "
    "numbers.",
    "E": "E grows. Each record is a dict with a caption in it: two objects to read instead of one.",
}


def letters(answer: Any) -> frozenset[str]:
    """The letters, in upper case: of a set, a list, or a text such as "A, B and E"."""
    if blank(answer):
        not_attempted('set `grow_too` to the letters of those that grow, such as {"A", "D"}.')
    if isinstance(answer, str):
        answer = re.sub(r"\band\b|[^A-Za-z]", "", answer)
    found = set()
    for each in answer if isinstance(answer, Iterable) else (None,):
        if not isinstance(each, str):
            not_yet(f'the answer is a set of letters, such as {{"A", "D"}}; got {shown(answer)}.')
        found.add((letter(each) or "").upper())
        if not found <= _ABOUT.keys():
            not_yet(f"{shown(each)} is none of the five. They are A, B, C, D and E.")
    return frozenset(found)


def judge(chosen: frozenset[str]) -> Result:
    """Correct if it is the letters of those that grow."""
    if wrong := sorted(_GROWING - chosen) or sorted(chosen - _GROWING):
        not_yet(_ABOUT[wrong[0]])
    return correct(
        "A, B and E grow like the list, C and D do not. What counts is neither the container nor "
        "what is in memory, but whether a sample makes the worker touch Python objects that main "
        "has made. Section 8 measures it."
    )


EXERCISES: Final = (
    Exercise(
        name="09.predict",
        title="How much does a worker grow that only reads?",
        grader=choice(
            "c",
            {
                "a": "`a`: nobody writes to the list, and yet both workers have grown. Somebody "
                "writes for you. Read on.",
                "b": "`b`: each worker has read one caption in twenty, but memory is not copied "
                f"by captions. It is copied {_PAGES}.",
                "c": "`c`: nearly the whole list, in each worker, for one caption in twenty. "
                f"Memory is copied {_PAGES}: nearly every page has been read somewhere. Now find "
                "out who writes.",
                "d": "`d`: look at the column of the first batch: each worker had some 13 MB of "
                "its own, as any worker has; no list. Under fork nothing is copied at the start.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and compare.",
            "A forked worker shares main's memory until one of them writes to it. The unit is a "
            "page of 4096 bytes.",
            "In the table, look at the row of W0: with the first batch, and 30,000 captions later.",
        ),
    ),
    Exercise(
        name="09.diagnose",
        title="Which of five datasets grow in the workers?",
        grader=Grader(gather=letters, judge=judge),
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
            "With `listed = json.loads(...)`: `self.starts = np.cumsum([0, *map(len, listed)])`; "
            "image i has the rows from `starts[i]` up to `starts[i + 1]`.",
        ),
    ),
)
