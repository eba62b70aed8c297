"""The dataset has a torch.Generator, and the worker dies when it unpickles the generator.

Symptom: `RuntimeError: unable to resize file <filename not specified> to the right size: Invalid
argument (22)` on stderr, and in main `RuntimeError: DataLoader worker (pid(s) 4711) exited
unexpectedly`, before the first batch.

Mechanism: to pickle a generator, torch makes a tensor of its state. Tensors for another process go
through shared memory, so the pickle holds only the number of a descriptor that the worker should
inherit. But torch makes this tensor only for the pickle, so it frees the tensor and closes the
descriptor as soon as the pickle is written. So the worker gets a number that refers to nothing, or
to another file. The same happens to any class whose `__getstate__` or `__reduce__` makes tensors.

Fix: keep the seed, and make the generator where you use it. A generator for each sample, seeded
with seed and index, gives the same numbers with any number of workers, and repeats none within an
epoch. A generator that fork copied gives every worker the same numbers (`repeated_randomness`).

Seen in: pytorch#146828, pytorch#31571 (open since 2019), pytorch#32351.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load


class Noisy(Dataset[torch.Tensor]):
    """A dataset of measurements with added noise."""

    def __init__(self, measured: torch.Tensor, seed: int) -> None:
        self.measured = measured
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.measured)

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = self.measured[index]
        return sample + torch.randn(sample.shape, generator=self.generator)


class SeededNoisy(Noisy):
    """A dataset of measurements with noise that depends only on the seed and the sample's index."""

    def __init__(self, measured: torch.Tensor, seed: int) -> None:
        self.measured = measured
        self.seed = seed

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = self.measured[index]
        generator = torch.Generator().manual_seed(self.seed + index)
        return sample + torch.randn(sample.shape, generator=generator)


MEASURED: Final = (16, 8)  # samples, and numbers in each sample


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset keeps a generator."""
    return Case(load(Noisy(torch.zeros(MEASURED), seed=14), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset keeps only the generator's seed."""
    return Case(load(SeededNoisy(torch.zeros(MEASURED), seed=14), workers, start_method))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    # Under forkserver, workers write to the fork server's stderr, which we may not see, so the
    # exit code counts, too.
    sign=Says(
        "worker died", ("unable to resize file <filename not specified>", "ended with exit code 1")
    ),
    start_methods=("spawn", "forkserver"),
)
