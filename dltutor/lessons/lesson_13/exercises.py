"""Lesson 13's exercises: how many workers."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import blank, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_13 import fix, transfer

_LIMITS: Final = {"A": "sending", "B": "waiting", "C": "training", "D": "computing"}


def _limits(answer: Any) -> dict[str, str]:
    """Job -> limit, as the learner meant it: `a`, "Waiting" and "'waiting'" are accepted."""
    if blank(answer):
        not_attempted("no-limits")
    limits = answer if isinstance(answer, dict) else {}
    named = {(letter(job) or "").upper(): limit for job, limit in limits.items()}
    if named.keys() != _LIMITS.keys() or len(limits) != len(_LIMITS):
        not_yet("other-keys")
    if any(map(blank, named.values())):
        not_attempted("dots")
    meant = {job: str(limit).strip(" \"'.`").lower() for job, limit in named.items()}
    for job, limit in meant.items():
        if limit not in _LIMITS.values():
            not_yet("no-limit", answer=shown(named[job]), limits=", ".join(_LIMITS.values()))
    return meant


def _told(limits: dict[str, str]) -> Result:
    wrong = [job for job, limit in _LIMITS.items() if limits[job] != limit]
    for job in wrong[:1]:
        not_yet(f"wrong-{job}", right=4 - len(wrong), limit=limits[job])
    return correct()


EXERCISES: Final = exercises_of(
    "13", diagnose=Grader(_limits, _told), fix=fix.GRADER, transfer=transfer.GRADER
)
