"""Grade "11.diagnose", which asks which ways to keep a batch's labels also keep its descriptor."""

from __future__ import annotations

from functools import partial
from typing import Final

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import letters
from dltutor.lessons.engine.outcomes import Result, correct, not_yet

#: The letters of the ways that keep the batch's descriptor, and of the ways that free it.
_KEEPS: Final = frozenset("aceg")
_FREES: Final = frozenset("bdf")


def judge(chosen: frozenset[str]) -> Result:
    """Return "Correct" for all ways that keep the descriptor and no other, or raise `Rejected`."""
    wrong, missing = sorted(chosen & _FREES), _KEEPS - chosen
    if not chosen:
        not_yet("none-named")
    if wrong:
        not_yet(f"wrong-{wrong[0]}", right=7 - len(wrong) - len(missing))
    if missing:
        not_yet("missing", found=len(chosen))
    return correct()


GRADER: Final = Grader(partial(letters, known="abcdefg"), judge)
