"""Each step calls `next(iter(loader))`, and starts all the workers for a single batch.

Symptom: a step takes as long as starting the workers (a tenth of a second, or several seconds under
spawn), plus the time for two batches if samples are slow. Processes named `pt_data_worker` come and
go. Without `shuffle`, the loss quickly falls to nothing, because every step trains on the same
first batch.

Mechanism: `iter(loader)` begins a new epoch. This makes a sampler's iterator, a queue for each
worker and one for main, and `num_workers` processes. Main asks for `num_workers * prefetch_factor`
batches, of which the loop uses one. Then nothing refers to the iterator anymore, and main ends the
workers. A worker in the middle of a batch finishes it, and main waits for that, up to 5 s for each
worker, one after the other. `persistent_workers=True` keeps the processes, but each step still
begins a new epoch, and main first waits for all batches that the workers prefetch, but drops them.

Fix: make one iterator and take every batch from it. For a loop that counts steps, use a
generator that begins the next epoch when one ends: `while True: yield from loader`.

Seen in: pytorch#1917, pytorch#9985 (processes were started faster than they ended).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load

STEPS = 3


def new_iterator_each_step(loader: DataLoader[Any]) -> Finding:
    """Time a few training steps, each with a new iterator."""
    return _time_steps(lambda: next(iter(loader)))


def one_iterator(loader: DataLoader[Any]) -> Finding:
    """Time a few training steps, all with one iterator."""
    batches = endless(loader)
    return _time_steps(lambda: next(batches))


def endless(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield batches forever, epoch after epoch."""
    while True:
        yield from loader


def _time_steps(step: Callable[[], object]) -> Finding:
    # Leave out the first step's time, because that step starts the workers in both cases.
    seconds = []
    for _ in range(STEPS):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return Finding(1000 * min(seconds[1:]), "ms for the fastest step after the first")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that begins a new epoch in every step."""
    return Case(_loader(workers, start_method), new_iterator_each_step)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that begins a new epoch only when the previous one has ended."""
    return Case(_loader(workers, start_method), one_iterator)


def _loader(workers: int, start_method: str) -> DataLoader[Any]:
    numbers, order = TensorDataset(torch.arange(512.0)), torch.Generator().manual_seed(0)
    return load(numbers, workers, start_method, batch_size=32, shuffle=True, generator=order)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(4))
