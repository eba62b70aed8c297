"""Add an exercise "00.own" for a test, with its own grader and messages."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dltutor.lessons.engine import words
from dltutor.lessons.engine.checking import exercises_in
from dltutor.lessons.engine.exercise import Exercise, Grader

HINTS: Final = ("Look there.", "It is this.", "Write `that`.")


def own_exercise(monkeypatch: pytest.MonkeyPatch, grader: Grader[Any], **says: str) -> None:
    """Add "00.own" to the exercises for the rest of a test.

    Args:
        monkeypatch: The test's fixture, which removes the exercise after the test.
        grader: The Grader that runs and judges an answer.
        says: The messages, by outcome code. The default for "correct" is "Yes."
    """
    known = exercises_in("00")
    says = {"correct": "Yes.", **says}
    table = {"title": "An exercise", "runs": "calls it", "usually": 1, "hints": HINTS, "says": says}
    monkeypatch.setitem(words.lesson("00"), "own", table)
    monkeypatch.setitem(known, "00.own", Exercise("00.own", grader))
