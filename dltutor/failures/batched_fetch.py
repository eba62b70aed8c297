"""torch fetches whole batches past a wrapper's `__getitem__`, so its transform never runs.

Symptom: the transform isn't applied in the DataLoader, although `dataset[0]` is right. For a
subclass of `Subset`, torch refuses: `NotImplementedError: MySubset overrides __getitem__ but not
__getitems__`.

Mechanism: `__getitem__` isn't the only way to get samples. If a map-style dataset has a
`__getitems__`, the loader calls that with the indices of a whole batch, and never calls
`__getitem__`. Here, the wrapper doesn't define `__getitems__`, but its `__getattr__` looks for
missing attributes in the dataset inside. So torch finds the inner dataset's method, and fetches the
batch past the wrapper. A subclass that overrides only `__getitem__` has the same problem, because
it inherits `__getitems__`. What you try by hand, `dataset[0]`, goes through the wrapper, so it
looks right. If the loop accepts samples without the transform, nothing fails.

Fix: whatever overrides or wraps `__getitem__` has to define `__getitems__`, too, even if that only
calls `__getitem__` for each index. Compare a batch from the loader with the same samples by hand.

Seen in: pytorch#163184 (2025, a subclass of Subset), PixPNet#1 (the index wasn't in the batch).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, SIDE = 64, 8


class Scans(Dataset[torch.Tensor]):
    """A dataset of scans as bytes. Fetching a batch of them takes one indexing operation."""

    classes = ("healthy", "ill")

    def __init__(self) -> None:
        pixels = torch.arange(LENGTH * SIDE * SIDE) % 251
        self.pixels = pixels.to(torch.uint8).reshape(LENGTH, SIDE, SIDE)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.pixels[index]

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return list(self.pixels[indices])


class Normalized(Dataset[torch.Tensor]):
    """A dataset that normalizes another dataset's scans, and takes all other attributes from it."""

    def __init__(self, scans: Scans) -> None:
        self.scans = scans

    def __getattr__(self, name: str) -> Any:
        if name == "scans":  # without this, unpickling would look for `scans` forever
            raise AttributeError(name)
        return getattr(self.scans, name)

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.normalize(self.scans[index])

    def normalize(self, scan: torch.Tensor) -> torch.Tensor:
        return (scan / 255 - 0.5) / 0.5


class NormalizedBatches(Normalized):
    """A dataset that normalizes scans even if they're fetched as a batch."""

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self.normalize(scan) for scan in self.scans.__getitems__(indices)]


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the scans that have a number outside the range from -1 to 1."""
    wrong = sum(int(scan.abs().max() > 1) for batch in loader for scan in batch)
    return Finding(wrong, f"of {LENGTH} samples not normalized")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose wrapper forwards `__getitems__` to the dataset inside."""
    return Case(load(Normalized(Scans()), workers, start_method, batch_size=8), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose wrapper has its own `__getitems__`."""
    return Case(load(NormalizedBatches(Scans()), workers, start_method, batch_size=8), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH))
