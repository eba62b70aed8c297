"""A dataset caches every sample, and every worker ends up holding all of the samples.

Symptom: memory grows from epoch to epoch with `persistent_workers=True`, in every worker, until
each holds the whole dataset. Without `persistent_workers`, nothing piles up, and nothing gets
faster either, because the workers and their caches end with each epoch.

Mechanism: a worker has its own dataset, so it has its own `self.cache`. With `shuffle=True`, the
samples go to different workers in every epoch. After the first epoch, two workers hold half of the
data each, then three quarters each, and soon memory holds `num_workers` copies of the dataset. What
one worker has read doesn't help the other. `functools.cache` and `functools.lru_cache(None)` do the
same.

Fix: don't use a cache in the workers. Linux already caches every file that a process has read, once
for all processes, and gives that memory back when something else needs it. If decoding is the
expensive part, decode once, into a file that all workers map (`numpy.load(..., mmap_mode="r")`),
or, if it fits, into one tensor before the loader starts. A cache with a size limit is safe, but it
rarely helps, because in a shuffled epoch, main asks for each sample once, from any worker.

Seen in: torchdatasets#26 (a cache that does nothing with workers), pytorch#8976.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import growth

EPOCHS = 3


class Recordings(Dataset[torch.Tensor]):
    """A dataset of the loudness of each recording. It keeps no recording."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(np.abs(self.load(index)).mean())

    def load(self, index: int) -> np.ndarray:
        recording: np.ndarray = np.load(self.paths[index])
        return recording.astype(np.float32)


class CachedRecordings(Recordings):
    """A dataset of the loudness of each recording. It keeps every recording that it has read."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.cache: dict[int, np.ndarray] = {}

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            self.cache[index] = super().load(index)
        return self.cache[index]


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run three epochs, and measure how much the average worker grew."""
    return Finding(growth(loader, EPOCHS), f"MB that each worker grew by in {EPOCHS} epochs")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset caches every recording."""
    return _case(CachedRecordings(_paths()), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset caches nothing."""
    return _case(Recordings(_paths()), workers, start_method)


def _paths() -> tuple[str, ...]:
    return shared_recordings(64, 100_000)


def _case(dataset: Recordings, workers: int, start_method: str) -> Case:
    order: dict[str, Any] = {"shuffle": True, "generator": torch.Generator().manual_seed(0)}
    return Case(load(dataset, workers, start_method, persistent_workers=True, **order), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(3))
