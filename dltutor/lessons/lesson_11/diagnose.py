"""Grade "11.diagnose", which asks which ways to keep a batch's labels also keep its descriptor."""

from __future__ import annotations

import re
from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import blank, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet

#: The letters of the ways that keep the batch's descriptor, and of the ways that free it.
_KEEPS: Final = frozenset("aceg")
_FREES: Final = frozenset("bdf")


def _letters(answer: Any) -> set[str]:
    """Return the letters in an answer such as "aceg", "A, C", ["a", "c"], or {"a"}."""
    if blank(answer):
        not_attempted("no-letters")
    text = answer
    if isinstance(answer, (list, tuple, set, frozenset)):
        text = " ".join(each if isinstance(each, str) else "?" for each in answer)
    if not isinstance(text, str):
        not_yet("not-letters", answer=shown(answer))
    words = re.findall(r"[^\s,;.'\"`()\[\]{}&+/-]+", text.lower())
    letters = {each for word in words if word != "and" for each in word}
    if unknown := sorted(letters - _KEEPS - _FREES):
        not_yet("unknown-letter", answer=shown(answer), letter=repr(unknown[0]))
    if not letters and letter(answer) is None:
        not_yet("none-named")
    return letters


def _judge(letters: set[str]) -> Result:
    wrong = sorted(letters & _FREES)
    missing = _KEEPS - letters
    if wrong:
        not_yet(f"wrong-{wrong[0]}", right=7 - len(wrong) - len(missing))
    if missing:
        not_yet("missing", found=len(letters))
    return correct()


GRADER: Final = Grader(_letters, _judge)
