"""Lesson 08's exercises: what counts as memory, and where it's counted."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader, exercises_of
from dltutor.lessons.engine.forms import blank, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_08 import fix, transfer

_TAKES: Final = {"A": "own", "B": "ahead", "C": "shared", "D": "view"}


def _takes(answer: Any) -> dict[str, str]:
    """Job -> what takes up its memory, as it was meant: `a`, "View" and "'view'" are taken."""
    if blank(answer):
        not_attempted("no-words")
    jobs = answer if isinstance(answer, dict) else {}
    named = {(letter(job) or "").upper(): word for job, word in jobs.items()}
    if named.keys() != _TAKES.keys() or len(jobs) != len(_TAKES):
        not_yet("other-keys")
    if any(map(blank, named.values())):
        not_attempted("dots")
    meant = {job: str(word).strip(" \"'.`").lower() for job, word in named.items()}
    for job, word in meant.items():
        if word not in _TAKES.values():
            not_yet("no-word", answer=shown(named[job]), words=", ".join(_TAKES.values()))
    return meant


def _told(takes: dict[str, str]) -> Result:
    wrong = [job for job, word in _TAKES.items() if takes[job] != word]
    for job in wrong[:1]:
        not_yet(f"wrong-{job}", right=4 - len(wrong), word=takes[job])
    return correct()


EXERCISES: Final = exercises_of(
    "08", diagnose=Grader(_takes, _told), fix=fix.GRADER, transfer=transfer.GRADER
)
