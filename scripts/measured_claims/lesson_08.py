"""Lesson 08: what stands in memory."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from measured_claims import DEEP_DIVE, Claim, Measured

_WORKERS: Final = (1, 2, 3)
_PREFETCH: Final = (1, 2, 4)


class _Counted(Dataset[torch.Tensor]):
    """A thousand samples; how many have been made stands in memory that all processes share."""

    def __init__(self) -> None:
        self.made: Any = multiprocessing.get_context("fork").Value("q", 0)

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.made.get_lock():
            self.made.value += 1
        return torch.zeros(1)


def _ahead(workers: int, prefetch: int) -> int:
    # Batches of one sample that exist before the loop takes its first.
    dataset = _Counted()
    loader = DataLoader(
        dataset, num_workers=workers, prefetch_factor=prefetch, multiprocessing_context="fork"
    )
    batches = iter(loader)
    last = -1
    while last != dataset.made.value or not last:  # until the workers have nothing more to do
        last = dataset.made.value
        time.sleep(0.5)
    del batches
    return last


def _prefetched() -> Measured:
    counts = {(w, p): _ahead(w, p) for w in _WORKERS for p in _PREFETCH}
    fits = all(count == w * p for (w, p), count in counts.items())
    shown = ", ".join(f"{w} x {p}: {count}" for (w, p), count in counts.items())
    return Measured(
        f"Batches loaded before the loop takes one, for workers x `prefetch_factor`: {shown}.",
        "holds; the batch that the loop has in its hands comes on top." if fits else "refuted.",
    )


CLAIMS: Final = (
    Claim(
        "A loader keeps `prefetch_factor` x `num_workers` batches in memory ahead of the loop.",
        DEEP_DIVE,
        "Forked workers count the samples that they make, with a batch size of 1, until they stop; "
        "nobody takes a batch.",
        _prefetched,
    ),
)
