"""The loop keeps a small part of every batch, and that keeps the whole batch in memory.

Symptom: memory grows by a batch with every step, in the main process, although the loop keeps only
one image or one number from each batch. The workers don't grow. Shared memory grows, and once no
worker maps that memory, it also counts as main's private memory. The number of open descriptors
grows by one for each tensor that the loop keeps. The run ends with `No space left on device`,
`Too many open files`, or the OOM killer.

Mechanism: each tensor of a batch arrives in its own piece of shared memory, with a descriptor for
it. `images[0]` and `labels[0]` are views: they share the storage of the whole tensor, and torch
can't free the storage while something keeps a view of it. A loss that never saw `backward()`, as in
a validation loop, is worse, because its graph keeps the batch and everything that the model
computed from it. `backward()` frees what the graph has kept.

Fix: keep numbers with `.item()`, and copies with `.clone()`. Detach anything that has a graph
first, and validate under `torch.no_grad()`.

Seen in: rabbityl/lepard#12 (a meter that kept losses and graphs), pytorch#973 (the descriptors).
"""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import Gauge, no_proc

Sample = tuple[torch.Tensor, int]


class Images(Dataset[Sample]):
    """A dataset of noise images in ten classes."""

    def __len__(self) -> int:
        return 320

    def __getitem__(self, index: int) -> Sample:
        random = torch.Generator().manual_seed(index)
        return torch.rand(3, 64, 64, generator=random), index % 10


def keep_views(loader: DataLoader[Sample]) -> Finding:
    """Keep the first image and the first label of each batch, to show them later."""
    gauge = Gauge()
    examples = []
    for images, labels in loader:
        examples.append((images[0], labels[0]))
    return _held(gauge, len(examples))


def keep_copies(loader: DataLoader[Sample]) -> Finding:
    """Keep copies of each batch's first image and label, and measure the shared memory in use."""
    gauge = Gauge()
    examples = []
    for images, labels in loader:
        examples.append((images[0].clone(), labels[0].item()))
    return _held(gauge, len(examples))


def _held(gauge: Gauge, kept: int) -> Finding:
    return Finding(gauge.shared(), f"MB of shared memory for {kept} images kept")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop keeps views of each batch."""
    return Case(load(Images(), workers, start_method, batch_size=16), keep_views)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop keeps copies of an image and a label from each batch."""
    return Case(load(Images(), workers, start_method, batch_size=16), keep_copies)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(5), absent=no_proc)
