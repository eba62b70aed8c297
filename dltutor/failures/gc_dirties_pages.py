"""A garbage collection in a forked worker copies pages that the worker never uses.

Symptom: each worker's private memory jumps although it never touches the data that main has loaded.
With `gc.collect()` in `__getitem__`, which is common advice when memory grows, memory jumps at the
worker's first sample, and loading becomes many times slower.

Mechanism: a forked worker shares every page with main until main or the worker writes to that page.
One full collection writes into the header of each object that the collector tracks: lists, dicts,
and instances of classes, but not strings and numbers. Up to Python 3.13, the collector doesn't
track a dict that holds only strings and numbers. So each worker gets a copy of every page with a
tracked object. Under spawn and forkserver, there's nothing to copy, because the objects came
through a pipe and are private from the start.

Fix: don't call `gc.collect()` in workers. To keep the automatic collector off the objects that
main has made, call `gc.freeze()` right before main forks the workers and `gc.unfreeze()` after
that. The workers' copies stay frozen. Freezing doesn't help against reading (see `copy_on_read`),
because reading writes reference counts.

Seen in: measured here. We found no public report, but many posts about `exited unexpectedly`
recommend `gc.collect()`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import Gauge


class Boxes(Dataset[torch.Tensor]):
    """A dataset with the size of each box, and annotations for the report after the epoch."""

    def __init__(self, count: int = 150_000) -> None:
        self.annotations = [
            {"image": n, "corner": [n % 640, n % 480], "size": [1 + n % 99, 1 + n % 77]}
            for n in range(count)
        ]
        self.sizes = torch.tensor([box["size"] for box in self.annotations])

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        gc.collect()
        return self.sizes[index].clone()


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Freeze existing objects, so that collections in workers forked in this block skip them."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and measure the average worker's private memory at the last batch."""
    gauge = Gauge()
    return _private(gauge, iter(loader))


def train_frozen(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch with workers that inherit a frozen heap, and measure their private memory."""
    gauge = Gauge()
    with frozen_heap():
        iterator = iter(loader)
    return _private(gauge, iterator)


def _private(gauge: Gauge, iterator: Iterator[Any]) -> Finding:
    private = [gauge.private() for _batch in iterator]
    return Finding(private[-1], "MB private to each worker")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset collects garbage for each sample."""
    return Case(load(Boxes(), workers, start_method, batch_size=2), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset collects garbage, in workers that inherit a frozen heap."""
    return Case(load(Boxes(), workers, start_method, batch_size=2), train_frozen)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(2.5), start_methods=("fork",)
)
