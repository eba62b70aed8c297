"""Lesson 13: what its judges say of recorded evidence, and what its notebook shows."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from answers.lesson_13 import forked, usual
from cells import answer_in, source
from torch.utils.data import DataLoader

from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_13 import counted, fix, processes_started, smallest_good, transfer
from dltutor.lessons.lesson_13.costs import BATCHES, Rehearsal
from dltutor.lessons.lesson_13.fix import Run
from dltutor.lessons.lesson_13.material import Reviews, draw_curves, eight_against_none, photo
from dltutor.lessons.lesson_13.transfer import Measured
from dltutor.observation.speeds import Speed, Throughput
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "13-how-many-workers.ipynb"

# 13.fix

GOOD = (
    Run(2, 8, 8, started=2, tensors=3),
    Run(0, 5, 5, in_main=160),
    Run(4, 60, 60, started=4, tensors=3),
    Run(2, 2, 2, started=2, tensors=3, broken_off=True),
)


def told_of_fix(at: int = 0, **differs: Any) -> Result:
    runs = tuple(replace(run, **differs) if i == at else run for i, run in enumerate(GOOD))
    return verdict(lambda: fix.judge(runs))


def test_batches_that_cost_what_they_must_are_correct() -> None:
    result = told_of_fix()
    assert result.outcome is Outcome.CORRECT
    assert "3 tensors came with a batch" in result.text


@pytest.mark.parametrize(
    ("at", "differs", "told"),
    [
        (0, {"odd": "a batch is 3."}, "With 2 workers, a batch is 3. What does your function"),
        (0, {"batches": 3}, "8 batches were asked for, and 3 came. Where does an epoch end?"),
        (2, {"batches": 61}, "With 4 workers, 60 batches were asked for, and more came"),
        (0, {"order": "two epochs came in the same order. Which call"}, "the same order. Which"),
        (0, {"started": 16}, "16 processes were started for 8 batches. Which of"),
        (1, {"started": 2}, "With 0 workers, 2 processes were started"),
        (0, {"in_main": 90}, "main made 90 samples itself. Who should make them?"),
        (0, {"tensors": 33}, "33 tensors came to main with one batch, and 3 are allowed"),
        (0, {"left": "2 processes"}, "2 processes still ran when the last batch had come"),
        (3, {"left": "2 processes"}, "2 processes still ran when the loop was broken off"),
    ],
)
def test_what_is_wrong_with_batches_is_told(at: int, differs: dict[str, Any], told: str) -> None:
    result = told_of_fix(at, **differs)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


def test_what_a_function_costs_can_be_counted() -> None:
    before, after = (dict(counted(each).rows) for each in (fix.starter, usual()))
    assert list(before.values()) == ["16", "33", "no"]
    assert list(after.values()) == ["2", "3", "yes"]


def test_reviews_can_be_told_apart_and_one_is_empty() -> None:
    reviews = Reviews()
    texts = [tuple(words.tolist()) for words, _ in map(reviews.__getitem__, range(len(reviews)))]
    assert len(set(texts)) == len(texts) == 90
    assert texts.count(()) == 1


def test_processes_are_counted_only_in_the_block() -> None:
    loader = DataLoader(range(4), num_workers=2, multiprocessing_context="fork")  # type: ignore[arg-type]
    assert processes_started(lambda: list(loader)) == 2
    assert processes_started(lambda: None) == 0


# 13.transfer

ORDER = (0, 2) * 3
RIGHT = (0.02, 0.01, 0.03, 0.02, 0.04, 0.03)
MEASURED = Measured(
    counts=(0, 2),
    order=ORDER,
    taken=(1 + BATCHES, 2 + BATCHES) * 3,
    right=RIGHT,
    answer={0: (0.02, 0.03, 0.04), 2: (0.01, 0.02, 0.03)},
    returned="{}",
    looked=12,
    crowded=0,
)


def told_of_transfer(**differs: Any) -> Result:
    return verdict(lambda: transfer.judge((MEASURED, replace(MEASURED, **differs))))


def test_a_measurement_that_is_not_fooled_is_correct() -> None:
    assert told_of_transfer().outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"answer": None, "returned": "[1]"}, "returns [1], not a dict"),
        ({"answer": {2: (0.1,) * 3}}, "returns measurements for [2]"),
        ({"answer": {0: (0.1,), 2: (0.1,) * 3}}, "returns 1 measurements for 0 workers"),
        ({"order": (0, 2)}, "began 2 epochs. 3 runs of each number are 6"),
        ({"order": (0, 0, 0, 2, 2, 2)}, "ran the numbers in the order [0, 0, 0, 2, 2, 2]"),
        ({"taken": (16, *MEASURED.taken[1:])}, "took 16 batches in a run with 0 workers. It is 1"),
        ({"taken": (17, 17) * 3}, "took 17 batches in a run with 2 workers. It is 2 to begin"),
        ({"crowded": 5}, "began 5 runs while the workers of another were alive"),
        (
            {"answer": {0: (0.02, 0.03, 0.05), 2: (0.01, 0.02, 0.03)}},
            "for a batch of a run with 0 workers; by the clock it is 0.04 s",
        ),
        ({"looked": 0, "answer": {0: (0.0,) * 3, 2: (0.0,) * 3}}, "It never read the `clock`"),
    ],
)
def test_what_is_wrong_with_a_measurement_is_told(differs: dict[str, Any], told: str) -> None:
    result = told_of_transfer(**differs)
    assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR)
    assert told in result.text


def test_the_loaders_of_the_check_make_its_clock_go_on_and_nothing_else_does() -> None:
    rehearsal = Rehearsal()
    batches = iter(rehearsal.make(4))
    assert rehearsal.clock() == 0
    list(itertools.islice(batches, 4))
    assert rehearsal.clock() == pytest.approx(4 * 0.5)
    began = rehearsal.clock()
    time.sleep(0.01)
    list(itertools.islice(batches, BATCHES))
    began, ended = rehearsal.clock(), rehearsal.clock() - began
    assert ended / BATCHES == pytest.approx(rehearsal.runs[0].right)
    del batches
    assert rehearsal.clock() - began == pytest.approx(4 * 0.3)  # the end of 4 workers


@pytest.mark.parametrize(
    ("measured", "take"),
    [
        ({0: [4.0, 4.1, 4.2], 2: [2.0, 2.1, 2.2], 4: [1.0, 1.1, 1.2]}, 4),
        ({0: [1.0, 1.1, 1.2], 2: [3.0, 3.1, 3.2]}, 0),
        ({0: [4.0, 4.0, 4.0], 2: [1.05, 1.05, 1.05], 4: [1.0, 1.0, 1.0]}, 2),
        ({0: [4.0, 4.0, 4.0], 2: [1.4, 1.4, 1.4], 4: [0.9, 1.0, 1.5]}, 2),
    ],
)
def test_the_smallest_good_number_is_chosen(measured: dict[int, list[float]], take: int) -> None:
    assert smallest_good(measured) == take


# The notebook


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [("13.fix", "fix", "my_batches"), ("13.transfer", "transfer", "my_measurement")],
)
def test_the_notebooks_starter_is_not_attempted(exercise: str, cell: str, name: str) -> None:
    known: dict[str, Any] = {}
    lines = source("setup", read(NOTEBOOK)).splitlines()
    exec("\n".join(line for line in lines if "dltutor" not in line), known)
    found = answer_in(read(NOTEBOOK), cell, **known)
    assert check(exercise, found[name]).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["13.predict", "13.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def curve(none: float, eight: float) -> Throughput:
    return Throughput((Speed(0, (none,) * 3, (0.1,) * 3), Speed(8, (eight,) * 3, (0.1,) * 3)))


def test_what_eight_workers_gain_is_told_in_words_and_promised() -> None:
    found = {"waits": curve(100, 10_000), "photos": curve(100, 100), "rows": curve(1000, 200)}
    words = [words for _, words in eight_against_none(found).rows]
    assert words == ["many times as fast", "it depends on the cores: see the figure", "slower"]
    assert draw_curves(found)._repr_png_().startswith(b"\x89PNG")


def test_a_promise_that_is_not_kept_stops_the_courses_own_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"waits": curve(100, 100), "photos": curve(100, 100), "rows": curve(1000, 200)}
    eight_against_none(found)  # a learner's machine may differ
    monkeypatch.setenv("DLTUTOR_STRICT", "1")
    with pytest.raises(AssertionError):
        eight_against_none(found)


def test_a_photo_is_the_same_each_time() -> None:
    assert photo() == photo() and len(photo()) > 1000


@pytest.mark.parametrize("workers", [0, 2])
def test_a_review_that_is_empty_comes_through_packed(workers: int) -> None:
    words, lengths, _ = next(iter(forked(Reviews(), workers, shuffle=False, batch_size=90)))
    assert int(lengths[30]) == 0 and int(lengths.sum()) == len(words)
    assert words.dtype == torch.int64


def test_the_lines_for_who_is_in_a_hurry_say_which_number_to_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [text] = [cell.source for cell in read(NOTEBOOK).cells if cell.id == "card"]
    lines = text.partition("```python\n")[2].partition("```")[0]
    assert len(lines.strip().splitlines()) <= 10
    exec(lines, {"loader": forked(Reviews(3200), 0)})
    assert "\nTake " in capsys.readouterr().out
