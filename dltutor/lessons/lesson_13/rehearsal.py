"""A clock for "13.transfer", and the loaders that make it go on: nothing else does."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, TensorDataset

BATCHES: Final = 16
_START: Final = 0.5  # seconds for the first batch of each worker
_END: Final = 0.3  # seconds for the end of each worker


@dataclass
class Record:
    """One run of a loader."""

    workers: int
    taken: int = 0
    right: float = 0.0  # seconds for a batch, as it should be measured


class Rehearsal:
    """A clock, the loaders that make it go on, and what was asked of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looked = 0
        self.runs: list[Record] = []
        self.crowded = 0
        self._last: Callable[[], _Batches | None] = lambda: None  # with workers

    def clock(self) -> float:
        """The time, in seconds."""
        self.looked += 1
        return self.now

    def make(self, workers: int) -> DataLoader[Any]:
        """A loader of 1,000 batches, with as many workers on paper.

        Args:
            workers: How many.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")
            loader = _Rehearsed(TensorDataset(torch.arange(4000)), 4, num_workers=workers)
        loader.rehearsal = self
        return loader

    def begin(self, workers: int) -> _Batches:
        """An epoch of such a loader.

        Args:
            workers: How many it has.
        """
        if self._crowd():
            gc.collect()  # rings of the learner's own are not what is asked about
        self.crowded += self._crowd()
        self.runs.append(Record(workers))
        slower = 1 + 0.1 * len(self.runs)  # the machine gets busier with every run
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
    """The iterator of a rehearsed loader: each sample takes its time."""

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
    """The same with workers, whose end takes its time too."""

    def _shutdown_workers(self) -> None:  # as torch's iterators have it
        if not self.ended:
            self._rehearsal.now += _END * self._record.workers
        self.ended = True

    __del__ = _shutdown_workers
