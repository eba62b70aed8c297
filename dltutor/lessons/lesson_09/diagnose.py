"""Grade "09.diagnose", which asks which of five datasets grow in the workers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import blank, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet

_DATASETS: Final = frozenset("ABCDE")
_GROWING: Final = frozenset("ABE")


def letters(answer: Any) -> frozenset[str]:
    """Return the letters in upper case, from a set, a list, or a string such as "A, B and E"."""
    if blank(answer):
        not_attempted("no-letters")
    if isinstance(answer, str):
        answer = re.sub(r"\band\b|[^A-Za-z]", "", answer)
    found = set()
    for each in answer if isinstance(answer, Iterable) else (None,):
        if not isinstance(each, str):
            not_yet("not-letters", answer=shown(answer))
        found.add((letter(each) or "").upper())
        if not found <= _DATASETS:
            not_yet("no-dataset", letter=shown(each))
    return frozenset(found)


def judge(chosen: frozenset[str]) -> Result:
    """Accept the letters of the datasets that grow."""
    if wrong := sorted(_GROWING - chosen) or sorted(chosen - _GROWING):
        not_yet(f"wrong-{wrong[0]}")
    return correct()


GRADER: Final = Grader(letters, judge)
