"""The loader's `timeout` is shorter than its slowest batch, so a loop that's only slow ends early.

Symptom: `RuntimeError: DataLoader timed out after 5 seconds`, often before the first batch. The
workers are alive, and with `timeout=0` the same loader finishes. Whether it raises may depend on
the machine: it does on a cold cache, on a busy file server, or with spawned workers.

Mechanism: with `timeout=`, main waits that many seconds for the next batch to arrive from any
worker, and then raises. It asks no worker how it's doing, so a worker that's stuck and a worker
that's slow give the same error. The seconds that you had in mind are those of an ordinary batch.
But a worker's first batch also takes whatever the worker does only once, such as opening an archive
or reading an index, and a spawned worker imports your modules first. So the first batch may take
many times as long as all later ones. Without workers, the same setting raises an AssertionError.

Fix: measure the slowest batch with `timeout=0`, the first one included, and allow ten times as
long. A timeout is there to end a run that would hang for hours, so it may well be 10 minutes. Or
have main do the slow part once, before it forks the workers.

Seen in: tomotwin-cryoet#57. The message alone doesn't tell the cause: pytorch#1355 has loaders that
do hang (see `held_lock`).
"""

from __future__ import annotations

import time
from typing import Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, PerProcess, Says, facts_of, load

LENGTH: Final = 64
READING: Final = 1.5  # seconds that it takes to read the index of the archive
TIMEOUT: Final = 0.25  # seconds, a hundred times as long as an ordinary batch takes
LONG: Final = 120.0


def read_index() -> list[int]:
    """Read where each tile of a large archive begins, from a slow disk."""
    time.sleep(READING)
    return list(range(LENGTH))


class Tiles(Dataset[torch.Tensor]):
    """A dataset of the tiles in an archive. Each process reads the archive's index on first use."""

    def __init__(self) -> None:
        self.index = PerProcess(read_index)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.tensor([float(self.index.get()[number])])


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose first batch takes longer than main waits."""
    return _case(TIMEOUT, workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose main waits for many times as long as the slowest batch takes."""
    return _case(LONG, workers, start_method)


def _case(timeout: float, workers: int, start_method: str) -> Case:
    return Case(load(Tiles(), workers, start_method, timeout=timeout))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("RuntimeError: DataLoader timed out after 0.25 seconds",)),
)
