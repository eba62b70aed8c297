"""A sample is a small part of a large tensor, and the worker sends the whole tensor.

Symptom: `/dev/shm` fills up although every sample is small: each has a few thousand numbers and
takes up megabytes. This happens only without collation (`batch_size=None`, or a `collate_fn` that
makes a list), and only with workers.

Mechanism: slicing a tensor makes a view: the same storage, another shape. A worker moves the
storage into shared memory, and sends it with the view's position. `default_collate` would have
copied the numbers into a new tensor, but without collation, nothing does. Each sample then costs as
much as the recording that you cut it from, for as long as anything keeps the sample. If the large
tensor is an attribute of the dataset, each forked worker moves all of it into shared memory with
the worker's first sample.

Fix: `clone()` the slice before you return it. In the loop, compare
`sample.untyped_storage().nbytes()` with `sample.nbytes`: they should be equal.

Seen in: measured here. We found no public report.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import Gauge, no_proc

WINDOW = 4_000  # numbers in an excerpt


class Excerpts(Dataset[torch.Tensor]):
    """A dataset with the middle of each recording."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        recording = torch.from_numpy(np.load(self.paths[index]))
        start = (len(recording) - WINDOW) // 2
        return recording[start : start + WINDOW]


class CopiedExcerpts(Excerpts):
    """A dataset with a copy of the middle of each recording."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).clone()


def collect(loader: DataLoader[torch.Tensor]) -> Finding:
    """Keep every excerpt from an epoch, and measure how many MB of shared memory they hold."""
    gauge = Gauge()
    excerpts = list(loader)
    return Finding(gauge.shared(), f"MB of shared memory for {len(excerpts)} excerpts")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset returns slices."""
    return Case(load(Excerpts(_paths()), workers, start_method, batch_size=None), collect)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset returns copies of slices."""
    return Case(load(CopiedExcerpts(_paths()), workers, start_method, batch_size=None), collect)


def _paths() -> tuple[str, ...]:
    return shared_recordings(24, 500_000)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(10), absent=no_proc)
