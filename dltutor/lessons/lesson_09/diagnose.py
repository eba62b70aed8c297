"""Grade "09.diagnose", which asks which of five datasets grow in the workers."""

from __future__ import annotations

from functools import partial
from typing import Final

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import letters
from dltutor.lessons.engine.outcomes import Result, correct, not_yet

_GROWING: Final = frozenset("ABE")


def judge(chosen: frozenset[str]) -> Result:
    """Return "Correct" for the letters of the datasets that grow, or raise `Rejected`."""
    if wrong := sorted(_GROWING - chosen) or sorted(chosen - _GROWING):
        not_yet(f"wrong-{wrong[0]}")
    return correct()


GRADER: Final = Grader(partial(letters, known="ABCDE"), judge)
