"""Whatever an answer to any exercise does, the kernel, its files and its state are as before.

A right answer of each exercise that runs one is given a harm: when it's made, at a sample in the
main process, and at a sample in a worker. All checks run answers in the same sandbox, of which
test_sandbox.py shows what it does against each harm. So here each exercise gets three of the harms.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harms import HARMS, PLACES, harmed
from state_of_main import differing, state
from test_answers import RIGHT_ANSWERS

from dltutor.lessons.engine.checking import check, exercises, exercises_in
from dltutor.lessons.engine.outcomes import Outcome

LIMIT = 10  # seconds: what each check announces here
CLEANING = 5  # seconds more, on a busy machine, for all that was started to be gone

RUN = sorted(name for name, each in exercises().items() if each.runs)


WAIT = ("sleeps", "retries under a bare except")
"""Harms for which a check waits until its limit."""


def table() -> list[Any]:
    """Each exercise at each place with a harm, so that all harms come in turn."""
    rows = []
    for number, exercise in enumerate(RUN):
        for shift, place in enumerate(PLACES):
            harm = [*HARMS][(number + 5 * shift) % len(HARMS)]
            often = (number + shift) % 6 == 0 and harm not in WAIT
            row = (exercise, place, harm)
            name = "{}, {}: {}".format(*row)
            rows.append(pytest.param(*row, id=name, marks=() if often else pytest.mark.thorough))
    return rows


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
    monkeypatch.setitem(exercises_in(entry.lesson), exercise, short)
    before = state()
    started = time.monotonic()
    result = check(exercise, bad)
    seconds = time.monotonic() - started
    assert result.outcome is not Outcome.COULD_NOT_CHECK, result
    if HARMS[harm].fatal:
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR), result
    assert seconds < LIMIT + CLEANING
    assert differing(before) == {}
    assert os.getpid() == MAIN


MAIN = os.getpid()
