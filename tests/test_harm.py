"""Whatever an answer to any exercise does, the kernel, its files and its state are as before.

A right answer of each exercise that runs one is given a harm: when it is made, at a sample in the
main process, or at a sample in a worker. test_sandbox.py shows each harm in full by itself; here a
table holds every exercise to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harms import HARMS, MADE, PLACES, harmed, state
from test_answers import RIGHT_ANSWERS

from dltutor.lessons.engine.checking import check, exercises
from dltutor.lessons.engine.outcomes import Outcome

LIMIT = 10  # seconds: what each check announces here
CLEANING = 5  # seconds more, on a busy machine, for all that was started to be gone

RUN = sorted(name for name, each in exercises().items() if each.runs)


FIRST = (MADE, "ends its process")
"""The harm of the default tier."""


def table() -> list[Any]:
    return [
        pytest.param(
            exercise,
            place,
            harm,
            id=f"{exercise}, {place}: {harm}",
            marks=() if (place, harm) == FIRST else pytest.mark.thorough,  # there are 500
        )
        for exercise in RUN
        for place in PLACES
        for harm in HARMS
    ]


@pytest.mark.parametrize(("exercise", "place", "harm"), table())
@pytest.mark.usefixtures("nothing_frozen")
def test_no_answer_to_any_exercise_harms_the_kernel(
    exercise: str,
    place: str,
    harm: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nothing_left_behind: Callable[..., None],
) -> None:
    answer = next(iter(RIGHT_ANSWERS[exercise].values()))()
    bad = harmed(answer, place, harm, tmp_path)
    if bad is None:
        pytest.skip(f"an answer to {exercise} has no {place}")
    entry = exercises()[exercise]
    short = replace(entry, grader=replace(entry.grader, at_most=LIMIT))
    monkeypatch.setitem(exercises(), exercise, short)
    before = state()
    started = time.monotonic()
    result = check(exercise, bad)
    seconds = time.monotonic() - started
    assert result.outcome is not Outcome.COULD_NOT_CHECK, result
    if HARMS[harm].fatal:
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR), result
    assert seconds < LIMIT + CLEANING
    assert state() == before
    assert os.getpid() == MAIN


MAIN = os.getpid()
