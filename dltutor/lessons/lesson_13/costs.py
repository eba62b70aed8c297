"""Count what a loader costs, and provide loaders with known speed for lesson 13's checks.

The costs are the processes that a loader starts and the tensors that it sends. The loaders with
known speed have a clock that moves only when the answer takes a batch or ends workers.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final
from unittest.mock import patch

import torch
import torch.multiprocessing.reductions as reductions
from torch.utils.data import DataLoader, TensorDataset

from dltutor.lessons.engine.running import starts

BATCHES: Final = 16  # batches to time
_START: Final = 0.5  # seconds for the first batch of each worker
_END: Final = 0.3  # seconds to end each worker


def processes_started(run: Callable[[], object]) -> int:
    """Return how many processes a function starts with `multiprocessing`."""
    with starts() as started:
        run()
    return len(started)


@contextmanager
def messages() -> Iterator[list[int]]:
    """Yield a list that collects the number of tensors in each message that this process reads."""
    counts: list[int] = []
    inside = [0]
    rebuild, loads = reductions.rebuild_tensor, ForkingPickler.loads

    @wraps(rebuild)  # because workers send the function by its name
    def rebuilding(*arguments: Any) -> Any:
        inside[0] += 1
        return rebuild(*arguments)  # type: ignore[no-untyped-call]

    def loading(*arguments: Any, **options: Any) -> Any:
        inside[0] = 0
        thing = loads(*arguments, **options)
        counts.append(inside[0])
        return thing

    with (
        patch.object(reductions, "rebuild_tensor", rebuilding),
        patch.object(ForkingPickler, "loads", staticmethod(loading)),
    ):
        yield counts


@dataclass
class Record:
    """A record of one run of a loader of known speed, to compare the answer's measurement with."""

    workers: int
    taken: int = 0  # batches that the answer has taken
    right: float = 0.0  # the seconds per batch that the answer should measure


class Rehearsal:
    """A clock with loaders that move it, and a record of each loader's run.

    Attributes:
        now: The clock's time in seconds.
        looked: How many times the answer has read the clock.
        runs: The record of each epoch of a loader, in order.
        crowded: How many runs began while the workers of another run were alive.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.looked = 0
        self.runs: list[Record] = []
        self.crowded = 0
        # A weak reference to the iterator of the last run with workers.
        self._last: Callable[[], _Batches | None] = lambda: None

    def clock(self) -> float:
        """Return the time in seconds, and count that the answer has read the clock."""
        self.looked += 1
        return self.now

    def make(self, workers: int) -> DataLoader[Any]:
        """Return a loader of 1,000 batches that pretends to have this many workers."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")
            loader = _Rehearsed(TensorDataset(torch.arange(4000)), 4, num_workers=workers)
        loader.rehearsal = self
        return loader

    def begin(self, workers: int) -> _Batches:
        """Record a new run, and return an iterator that pretends to have this many workers."""
        if self._crowd():
            gc.collect()  # frees reference cycles, because the exercise isn't about them
        self.crowded += self._crowd()
        self.runs.append(Record(workers))
        slower = 1 + 0.1 * len(self.runs)  # as if the machine got busier with every run
        if not workers:
            return _Batches(self, self.runs[-1], slower)
        batches = _FromWorkers(self, self.runs[-1], slower)
        self._last = weakref.ref(batches)
        return batches

    def _crowd(self) -> bool:
        last = self._last()
        return last is not None and not last.ended


class _Rehearsed(DataLoader[Any]):
    rehearsal: Rehearsal

    def __iter__(self) -> Any:
        return self.rehearsal.begin(self.num_workers)


class _Batches:
    """An iterator over a loader of known speed. Each batch moves the rehearsal's clock."""

    def __init__(self, rehearsal: Rehearsal, record: Record, slower: float) -> None:
        self._rehearsal, self._record, self._slower = rehearsal, record, slower
        self.ended = False

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> torch.Tensor:
        place, each = self._record.taken, max(1, self._record.workers)
        if self.ended or place == 1000:
            raise StopIteration
        seconds = _START if place < each else (1 + place % 3) * self._slower / each / 50
        self._rehearsal.now += seconds
        self._record.taken += 1
        if each <= place < each + BATCHES:
            self._record.right += seconds / BATCHES
        return torch.arange(4 * place, 4 * place + 4)


class _FromWorkers(_Batches):
    """An iterator that pretends to have workers. Ending the workers also moves the clock."""

    def _shutdown_workers(self) -> None:  # torch's iterators with workers have this method
        if not self.ended:
            self._rehearsal.now += _END * self._record.workers
        self.ended = True

    __del__ = _shutdown_workers
