"""You catch an error, but the workers stay alive, and later they stall the program for a while.

Symptom: the workers are still alive after an error was caught, with `try: for batch in loader: ...
except ValueError:`, and they keep their memory. Later, at some random line, the program stalls for
5 s for each worker. Or a log fills with `AssertionError: can only test a child process`, below
`Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__`.

NOTE [ Who Holds The Iterator ]

torch raises a worker's exception from a function that keeps it in a local variable. So there's a
cycle, exception -> traceback -> frames -> exception, and one of the frames is a method of the
iterator. No reference count falls to zero, so the iterator and its workers live until the cyclic
garbage collector happens to run. The collector then closes the queues before the iterator can use
them to tell the workers to exit, so main waits 5 s for each worker and terminates it.

If the program forks before the collector runs (for the next loader's workers, for example), the
child inherits the iterator. When the child's collector frees it, the iterator checks workers that
aren't the child's own: `can only test a child process`. This is noise, printed from `__del__`, and
it does no harm to the data. Any unfinished iterator that is garbage at a fork causes it. tqdm often
gets the blame, because it's one of the things that hold an iterator.

Fix: in the worker, catch what may go wrong with a sample (as the fixed case does), so that the
loop ends by itself. If you have to catch a worker's error in the loop, log it and drop its
traceback: `error.with_traceback(None)` frees the iterator right away, and the workers with it.

Seen in: measured here, on torch 2.13. We found no public report of the stall. For the noise, see
pytorch#149837, transformers#25785, fastai#1990, optuna#5024.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import make_readings
from dltutor.failures.data.tolerant import Tolerant, collate_tolerant
from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

Sample = tuple[torch.Tensor, int]


class Readings(Dataset[Sample]):
    """A dataset of readings and their labels."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        reading = json.loads(self.paths[index].read_text())
        return torch.tensor([float(value) for value in reading["values"]]), reading["label"]


def train(loader: DataLoader[Any]) -> Finding:
    """Run an epoch that a bad value may end early, and count the workers still alive after it."""
    others = set(active_children())
    try:
        for _ in loader:
            pass
    except ValueError:
        pass
    return _alive(others, loader.num_workers)


def train_and_let_go(loader: DataLoader[Any]) -> Finding:
    """Run an epoch, drop the traceback if an error ends it, and count the workers still alive."""
    others = set(active_children())
    try:
        for _ in loader:
            pass
    except ValueError as error:
        error.with_traceback(None)
    return _alive(others, loader.num_workers)


def _alive(others: set[Any], of: int) -> Finding:
    workers = set(active_children()) - others
    return Finding(len(workers), f"of {of} workers alive after the epoch")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop is inside a `try` that catches a worker's error."""
    return Case(load(Readings(_paths()), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset catches the error in the worker, so the loop never sees it."""
    dataset = Tolerant(Readings(_paths()), ValueError)
    return Case(load(dataset, workers, start_method, collate_fn=collate_tolerant), train_and_let_go)


def _paths() -> Sequence[Path]:
    return make_readings('{"values": ["2.25", "n/a", "9.0"], "label": 0}')


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(2))
