"""Check that no answer to an exercise harms the process that checks it, or leaves anything behind.

For each exercise whose check runs the answer, the tests add harm to a right answer: when the answer
is made, at a sample in the main process, or at a sample in a worker. All checks run answers in the
same sandbox, which test_sandbox.py tests. So here, each exercise gets only three kinds of harm, one
for each place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harms import HARMS, MAY_BE_RIGHT, PLACES, harmed
from state_of_main import differing, state
from test_answers import first_right

from dltutor.lessons.engine.checking import check, exercises, exercises_in
from dltutor.lessons.engine.outcomes import Outcome

LIMIT = 10  # the most seconds for each check, lowered for these tests
CLEANING = 5  # extra seconds, on a busy machine, to end everything that an answer started

RUN = sorted(name for name, each in exercises().items() if each.runs)


WAIT = ("sleeps", "retries under a bare except")
"""Harms for which a check waits until its limit."""


def table() -> list[Any]:
    """Return a row for each exercise and place, with the kinds of harm in rotation.

    Most rows are marked `thorough`.
    """
    rows = []
    for number, exercise in enumerate(RUN):
        for shift, place in enumerate(PLACES):
            harm = [*HARMS][(number + 5 * shift) % len(HARMS)]
            often = (number + shift) % 12 == 0 and harm not in WAIT
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
    answer = first_right(exercise)
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
    if harm not in MAY_BE_RIGHT:
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR), result
    assert seconds < LIMIT + CLEANING
    assert differing(before) == {}
    assert os.getpid() == MAIN


MAIN = os.getpid()
