"""Under forkserver, the error doesn't say what killed a worker.

Symptom: `RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly`, after 5 s without a
batch, below a bare `_queue.Empty`, with no signal and no exit code.

Mechanism: under fork and spawn, a worker is a child of the main process, so Linux tells main when
the worker dies (SIGCHLD). torch then puts the signal or the exit code into the error. Under
forkserver, the default on Linux from Python 3.14 on, the worker is a child of the server, and
nothing tells main. While torch waits for a batch, it checks every 5 s that the workers are alive.
If a worker isn't, torch raises an error that names only an empty queue as the cause. The same
happens to a loop in any thread except the main one.

Fix: multiprocessing still knows the exit code. Remember the workers when the loop starts
(`multiprocessing.active_children()`), and on such an error read the `exitcode` of each. A negative
number is minus the signal: -9 is SIGKILL.

Seen in: measured here, on torch 2.13. We found no public report, but MC-GAN#19 shows the same bare
`_queue.Empty` on Windows.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load


class Waves(Dataset[Any]):
    """A dataset of pieces of a sine wave."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return np.sin(np.arange(16) + 16 * index)


def train(loader: DataLoader[Any]) -> Finding:
    """Run an epoch in which a worker dies, and report whether torch's error says what killed it."""
    named = False
    try:
        for _ in lose_a_worker(loader, []):
            pass
    except RuntimeError as error:
        said = f"{error} {error.__cause__} {error.__context__}"
        named = "killed by signal" in said or "exit code" in said
    return _unnamed(named)


def train_and_ask_the_workers(loader: DataLoader[Any]) -> Finding:
    """Run an epoch in which a worker dies, and report whether an exit code says what killed it."""
    named = False
    workers: list[BaseProcess] = []
    try:
        for _ in lose_a_worker(loader, workers):
            pass
    except RuntimeError:
        named = any(worker.exitcode == -signal.SIGKILL for worker in workers)
    return _unnamed(named)


def lose_a_worker(loader: DataLoader[Any], workers: list[BaseProcess]) -> Iterator[Any]:
    """Yield a loader's batches, and kill the worker with the lowest pid after the first batch.

    Append the workers to `workers`, so that the caller can read their exit codes.
    """
    others = set(active_children())
    batches = iter(loader)
    workers += sorted(set(active_children()) - others, key=lambda worker: worker.pid or 0)
    yield next(batches)
    os.kill(workers[0].pid or 0, signal.SIGKILL)  # the OOM killer's signal
    yield from batches


def _unnamed(named: bool) -> Finding:
    return Finding(0 if named else 1, "of 1 crashes without a cause")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop looks in torch's error for what killed a worker."""
    return Case(load(Waves(), workers, start_method, collate_fn=np.stack), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop looks in the exit codes for what killed a worker."""
    loader = load(Waves(), workers, start_method, collate_fn=np.stack)
    return Case(loader, train_and_ask_the_workers)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(1), start_methods=("forkserver",)
)
