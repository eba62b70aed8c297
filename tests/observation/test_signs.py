"""Check which broken promises one run shows, and that runs that come close show none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_datasets import MeasuredStream, Numbers, load
from test_report import observation
from test_timeline import curves, timeline
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from dltutor.observation.loaders import length
from dltutor.observation.observing import observe
from dltutor.tables import MB

BATCHES = [0, 10, 20, 30, 40, 50, 60]


def run(uss: list[float] | None = None, fds: list[float] | None = None, **fields: Any) -> Any:
    values: dict[str, list[float]] = {"uss": [each * MB for each in uss or [10] * 7]}
    values |= {"fds": fds or [20] * 7, "rss": [1] * 7}
    seen = timeline(curves("W0", **values), batches=BATCHES, length=len(BATCHES))
    return observation(batches=60, samples=240, timeline=seen, **fields)


@pytest.mark.parametrize(
    ("seen", "promises"),
    [
        (run(), []),
        (run([10, 12, 30, 48, 66, 84, 102]), ["bounded"]),
        (run([10, 12, 60, 88, 90, 90, 90]), []),  # it has leveled off
        (run([10, 12, 14, 16, 18, 20, 22]), []),  # any worker may grow that much
        (run(fds=[20, 20, 60, 90, 120, 150, 180]), ["bounded"]),
        (run(fds=[20, 20, 60, 70, 70, 70, 70]), []),
        (
            run([10, 12, 30, 48, 66, 84, 102], fds=[20, 20, 60, 90, 120, 150, 180]),
            ["bounded", "bounded"],
        ),
        (run(expected=240), []),
        (run(expected=480), ["complete"]),
        (run(expected=120), ["complete"]),
        (run(waited=0.9, seconds=20.0), ["quick"]),
        (run(waited=0.2, seconds=20.0), []),
        (run(waited=0.9, seconds=2.0), []),
        (run(waited=0.9, seconds=20.0, first_batch_seconds=15.0), []),
        (run([10, 12, 30, 48, 66, 84, 102], end="hung"), []),
    ],
)
def test_the_promises_that_a_run_shows_to_be_broken(seen: Any, promises: list[str]) -> None:
    assert [promise for promise, _ in seen.signs] == promises
    assert [each["promise"] for each in seen.to_dict()["signs"]] == promises
    rows = [label for label, _ in seen.story().rows]
    assert [each for each in rows if each in ("bounded", "complete", "quick")] == promises
    assert seen.story().tone == ("warn" if promises or seen.end == "hung" else "good")


ROWS = Numbers(length=8)


def test_a_stream_that_is_not_dealt_out_comes_once_for_each_worker() -> None:
    stream = MeasuredStream(8, 8)
    seen = observe(load(stream, batch_size=4))
    assert (seen.samples, seen.expected, [each for each, _ in seen.signs]) == (16, 8, ["complete"])
    assert observe(DataLoader(stream, batch_size=4), epochs=2).signs == ()


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (DataLoader(ROWS, batch_size=3), 8),
        (DataLoader(ROWS, batch_size=3, drop_last=True), None),
        (DataLoader(ROWS, batch_size=3, sampler=SequentialSampler(range(4))), None),
        (DataLoader(ROWS, batch_sampler=[[0, 1]]), None),
        (DataLoader(ROWS, batch_sampler=BatchSampler(range(8), 3, drop_last=True)), None),
        (DataLoader(ROWS, batch_sampler=BatchSampler(range(4), 3, drop_last=False)), None),
        (DataLoader(ROWS, batch_sampler=BatchSampler(range(8), 3, drop_last=False)), 8),
        (DataLoader(ROWS, batch_size=None), 8),
    ],
)
def test_how_many_samples_an_epoch_must_have(loader: DataLoader[Any], expected: Any) -> None:
    assert length(loader) == expected


def left_early(loader: Any) -> None:
    next(iter(loader))


def works_meanwhile(loader: Any) -> None:
    for _ in loader:
        torch.rand(200, 200) @ torch.rand(200, 200)


@pytest.mark.parametrize("loop", [left_early, works_meanwhile])
def test_what_a_loop_of_yours_waits_is_its_own(loop: Callable[[Any], None]) -> None:
    seen = observe(DataLoader(ROWS, batch_size=2), consume=loop)
    assert seen.expected == (None if loop is left_early else 8)
    assert seen.waited is not None and 0 < seen.waited < 1
    assert observe(DataLoader(ROWS, batch_size=2)).waited is None
