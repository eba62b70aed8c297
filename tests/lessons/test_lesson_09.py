"""Check lesson 09's judge on made-up evidence, its helpers, and its notebook's code.

These tests leave out the awkward captions and boxes in the check's files, because tests/answers has
wrong answers that fail only on one of those. They also leave out the numbers in the notebook's
figure and tables, which differ between machines.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cells import run_copied
from torch.utils.data import DataLoader

from dltutor.failures.data.captions import CaptionTuple, shared_captions
from dltutor.failures.tools.gauge import sent_to_spawned
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending, where
from dltutor.lessons.engine.forms import letters
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_09 import fix
from dltutor.lessons.lesson_09.fix import Rewritten, Run
from dltutor.lessons.lesson_09.helpers import Memory, Reading, draw, memory_of

MB = 1 << 20
ENDED = Ending("finished", 8)
FLAT = Run(2, ENDED, (11.0, 10.9), (11.0, 11.0))
GROWN = Run(2, ENDED, (11.0, 10.9), (17.5, 17.4))
FOUR = replace(FLAT, workers=4)
NONE = Run(0, ENDED)
SEEN = Rewritten(50_000, (NONE, FLAT, FOUR), GROWN, kept="`captions` (list)")
LARGER = replace(SEEN, runs=(NONE, replace(FLAT, first=(11.0, 13.0), last=(11.0, 13.1)), FOUR))
GROWS_MORE = replace(FLAT, first=(11.0, 12.0), last=(15.0, 16.0))


def told(seen: Rewritten) -> Result:
    return verdict(lambda: fix.GRADER.judge(seen))


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (LARGER, "started-larger"),
        (replace(LARGER, frozen=True), "started-larger-frozen"),
        (replace(LARGER, kept="", frozen=True), "started-larger-elsewhere"),
        # W1 started 1 MB larger, but both workers grew by 4 MB, so the growth is what counts.
        (replace(SEEN, runs=(NONE, GROWS_MORE, FOUR)), "grew"),
    ],
)
def test_memory_that_no_answer_takes_for_sure_is_judged_by_what_was_seen(
    seen: Rewritten, code: str
) -> None:
    result = told(seen)
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


def test_the_worker_that_grew_most_is_named() -> None:
    for runs, worker, workers in (
        ((NONE, replace(FLAT, last=(12.2, 11.0)), FOUR), "W0", 2),
        ((NONE, FLAT, replace(FOUR, last=(11.0, 12.1))), "W1", 4),
    ):
        fields = told(replace(SEEN, runs=runs)).fields
        assert (fields["worker"], fields["where"]) == (worker, where(workers))


def test_a_machine_that_shows_no_copying_cannot_check() -> None:
    result = told(replace(SEEN, broken=FLAT))
    assert (result.outcome, result.code) == (Outcome.COULD_NOT_CHECK, "broken-stayed-small")


@pytest.mark.parametrize(
    "answer", [{"A", "B"}, "A,B", "a and b", "'A' b", " (A) b.", ["'A'", '"b" ']]
)
def test_letters_are_taken_in_any_form(answer: Any) -> None:
    assert letters(answer, "ABCDE") == {"A", "B"}


def test_two_texts_that_begin_alike_are_cut_to_where_they_differ() -> None:
    assert fix.where_unlike("'a'", "'b '") == ["'a'", "'b '"]
    assert fix.where_unlike(f"'{'ab' * 40}'", f"'{'ab' * 40} and so on, for {'long ' * 20}'") == [
        "...babababababababababababab'",
        "...babababababababababababab and so on, for long long long long...",
    ]


def test_the_class_that_can_be_copied_is_a_list_of_strings() -> None:
    strings = ["", " a lake", "Café ", "\udce9.jpg", "\u2028\x0b", "the last"]
    copied = run_copied("09", "on-call")
    kind = copied["PackedStrings"]
    packed = kind(iter(strings))
    assert [packed[index] for index in range(-6, 6)] == [*strings, *strings]
    assert list(packed) == strings
    with pytest.raises(IndexError):
        packed[6]
    assert len(kind([])) == 0
    samples = copied["Samples"]([(Path("cat/0.jpg"), 0), ("dog/1.jpg", 1)])
    assert [samples[index] for index in range(len(samples))] == [("cat/0.jpg", 0), ("dog/1.jpg", 1)]


def test_a_run_that_fails_says_how() -> None:
    with pytest.raises(RuntimeError, match="tuple index out of range"):
        memory_of(DataLoader(CaptionTuple(shared_captions(10)), sampler=[99]))


def test_where_pss_is_unknown_the_rest_is_told_and_drawn() -> None:
    reading = Reading(200, (10 * MB,), 90 * MB, float("nan"))
    run = Memory((reading,), {"first batch": reading, "end of the epoch": reading})
    assert [row[0] for row in run.table(50 * MB).rows] == ["W0's own (USS)", "W0 in htop (RES)"]
    assert draw(50 * MB, one=run, two=run)._repr_png_().startswith(b"\x89PNG")


def test_a_spawned_worker_is_sent_a_tensors_descriptor_and_an_arrays_bytes() -> None:
    numbers = np.zeros(100_000, np.uint8)
    assert sent_to_spawned(numbers) >= numbers.nbytes
    assert sent_to_spawned(torch.from_numpy(numbers)) < 1000
