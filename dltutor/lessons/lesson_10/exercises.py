"""Lesson 10's exercises: four ways to leak, told apart by their curves."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import blank, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_10 import fix, transfer

_CAUSES: Final = {"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}


def _causes(answer: Any) -> dict[str, str]:
    """Job -> cause, as they were meant: `a`, "Cache" and "'cache'" are taken."""
    if blank(answer):
        not_attempted("no-causes")
    causes = answer if isinstance(answer, dict) else {}
    named = {(letter(job) or "").upper(): cause for job, cause in causes.items()}
    if named.keys() != _CAUSES.keys() or len(causes) != len(_CAUSES):
        not_yet("other-keys")
    if any(map(blank, named.values())):
        not_attempted("dots")
    meant = {job: str(cause).strip(" \"'.`").lower() for job, cause in named.items()}
    for job, cause in meant.items():
        if cause not in _CAUSES.values():
            not_yet("no-cause", answer=shown(named[job]), causes=", ".join(_CAUSES.values()))
    return meant


def _told(causes: dict[str, str]) -> Result:
    wrong = [job for job, cause in _CAUSES.items() if causes[job] != cause]
    for job in wrong[:1]:
        not_yet(f"wrong-{job}", right=4 - len(wrong), cause=causes[job])
    return correct()


EXERCISES: Final = exercises_of(
    "10", diagnose=Grader(_causes, _told), fix=fix.GRADER, transfer=transfer.GRADER
)
