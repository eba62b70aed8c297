"""Every worker draws the same random numbers, and so does every epoch with fresh workers.

Symptom: the same random augmentation in all workers. Noise, crops, and masks repeat from worker to
worker and from epoch to epoch. There's no error, and the loss looks a little better than it should.

NOTE [ Which Generators Torch Reseeds ]

When a worker starts, torch seeds three generators there, with the epoch's seed plus the worker's
number: torch's global one, `random`'s, and since torch 1.9 numpy's. torch doesn't know about your
own generators. If you make a `numpy.random.default_rng(0)`, `random.Random(0)`, or
`torch.Generator` in `__init__` or at module level, every worker gets a copy with its state. So
under any start method, all workers start at the same position in the same sequence. Fresh workers
get a new copy from the main process, whose generator never moves, so the next epoch also repeats.
Persistent workers go on, but still in lockstep.

`worker_init_fn=lambda i: np.random.seed(i)`, an old recipe, now does harm, because it replaces a
seed that's new in each epoch with one that never changes.

Fix: make the generator in `__getitem__`, from a seed, the epoch, and the index:
`default_rng((seed, epoch, index))`, at a few tens of microseconds each. Then a sample doesn't
depend on which worker draws it or on how many there are, and you can repeat a run with a different
`num_workers`. The epoch has to reach the workers (see `stale_epoch`).

Seen in: pytorch#5059 (numpy's global generator, fixed by pytorch#56488 in torch 1.9). Your own
generators still repeat, because the proposal pytorch#107131 wasn't merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, EPOCHS = 32, 2


class NoisySignals(Dataset[torch.Tensor]):
    """A dataset of signals with fresh noise, reproducible with a seed."""

    def __init__(self, seed: int = 0) -> None:
        self.signals = np.zeros((LENGTH, 4))
        self.rng = np.random.default_rng(seed)

    def set_epoch(self, epoch: int) -> None:
        pass

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.signals[index] + self.rng.normal(size=4))


class SeededSignals(NoisySignals):
    """A dataset of signals with noise that depends only on seed, epoch, and index."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        self.epoch = torch.tensor(0).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def __getitem__(self, index: int) -> torch.Tensor:
        rng = np.random.default_rng((self.seed, int(self.epoch), index))
        return torch.from_numpy(self.signals[index] + rng.normal(size=4))


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run two epochs, and count repeated draws. The signals are zero, so a sample is its noise."""
    dataset: Any = loader.dataset
    drawn: list[tuple[float, ...]] = []
    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        drawn += [tuple(noise.tolist()) for batch in loader for noise in batch]
    return Finding(len(drawn) - len(set(drawn)), f"of {EPOCHS * LENGTH} draws seen before")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that draws from a generator made in `__init__`."""
    return Case(load(NoisySignals(), workers, start_method, batch_size=8), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that draws from a generator seeded with seed, epoch, and index."""
    return Case(load(SeededSignals(), workers, start_method, batch_size=8), train)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(EPOCHS * LENGTH * 3 // 4)
)
