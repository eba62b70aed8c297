"""Check lesson 13's helpers, the clock of its check, and the code and table in its notebook."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any
from unittest.mock import patch

import pytest
from answers.lesson_13 import forked
from cells import to_copy

from dltutor.__main__ import _parser
from dltutor.lessons.lesson_13 import smallest_good
from dltutor.lessons.lesson_13.costs import BATCHES, Rehearsal
from dltutor.lessons.lesson_13.helpers import Reviews, draw_curves, eight_against_none
from dltutor.observation.speeds import Speed, Throughput
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "13-how-many-workers.ipynb"


def test_reviews_can_be_told_apart_and_one_is_empty() -> None:
    reviews = Reviews()
    texts = [tuple(words.tolist()) for words, _ in map(reviews.__getitem__, range(len(reviews)))]
    assert len(set(texts)) == len(texts) == 90
    assert texts.count(()) == 1


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
    assert rehearsal.clock() - began == pytest.approx(4 * 0.3)  # 0.3 s to end each of 4 workers


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


# The table from the notebook


def curve(none: float, eight: float) -> Throughput:
    return Throughput((Speed(0, (none,) * 3, (0.1,) * 3), Speed(8, (eight,) * 3, (0.1,) * 3)))


def test_what_eight_workers_gain_is_told_in_words_and_promised() -> None:
    found = {"waits": curve(100, 10_000), "photos": curve(100, 100), "rows": curve(1000, 200)}
    words = [words for _, words in eight_against_none(found).rows]
    assert words == ["many times as fast", "depends on your cores (see the figure)", "slower"]
    assert draw_curves(found)._repr_png_().startswith(b"\x89PNG")


def test_a_promise_that_is_not_kept_stops_the_courses_own_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"waits": curve(100, 100), "photos": curve(100, 100), "rows": curve(1000, 200)}
    eight_against_none(found)  # it doesn't raise, because a learner's machine may differ
    monkeypatch.setenv("DLTUTOR_STRICT", "1")
    with pytest.raises(AssertionError):
        eight_against_none(found)


# Code to copy from `On call`


def test_the_lines_to_copy_say_how_long_a_loop_waits(capsys: pytest.CaptureFixture[str]) -> None:
    trained: list[Any] = []
    lines, _, _ = to_copy("on-call-code", read(NOTEBOOK), r"\w+")
    exec(lines, {"loader": forked(Reviews(3200), 2), "train": trained.append})
    assert len(trained) == 20
    assert re.fullmatch(r"waited \d+\.\d\d s of \d+\.\d\d s\n", capsys.readouterr().out)


def test_the_lines_to_copy_measure_the_numbers_that_the_command_measures() -> None:
    _, lines, command = to_copy("on-call-code", read(NOTEBOOK), r"\w+")
    loader = object()
    with patch("dltutor.how_many_workers", autospec=True) as measure:
        exec(lines, {"loader": loader})
    counts = (0, 1, 2, 4, 8)
    measure.assert_called_once_with(loader, counts=counts, deadline=60)
    assert _parser().parse_args(command.split()[1:]).counts == list(counts)
