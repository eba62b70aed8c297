"""Lesson 13: how many workers."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.cheap_samples import measurements
from measured_claims import DEEP_DIVE, Claim, Measured

_EPOCHS: Final = 3


class _Slow(Dataset[torch.Tensor]):
    """A hundred samples that each wait for a disk: 10 ms, and no computation."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.zeros(1)


def _epoch(dataset: Dataset[Any], workers: int, batch: int) -> float:
    """The median of the seconds that an epoch takes, its workers' start included."""
    seconds = []
    for _ in range(_EPOCHS):
        loader = DataLoader(
            dataset,
            batch,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        began = time.perf_counter()
        for _ in loader:
            pass
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def _ten_times() -> Measured:
    waiting = _epoch(_Slow(), 0, 5) / _epoch(_Slow(), 8, 5)
    cheap = _epoch(measurements(), 0, 64) / _epoch(measurements(), 8, 64)
    return Measured(
        "An epoch without workers against one with 8 forked ones: samples that wait 10 ms take "
        f"{'more' if waiting > 1 else 'less'} time, "
        f"{'but less than ten times as much' if waiting < 10 else 'ten times as much or more'}; "
        f"rows of a tensor take {'less' if cheap < 1 else 'more'} time.",
        "depends on the sample: at most as many times slower as there are workers, where samples "
        "are slow to get; where they are cheap, 0 workers are faster."
        if 1 < waiting < 10 and cheap < 1
        else "other than expected.",
    )


CLAIMS: Final = (
    Claim(
        "With `num_workers=0` loading can be ten times slower.",
        DEEP_DIVE,
        f"The median of {_EPOCHS} epochs each, with 0 and 8 forked workers: 100 samples that wait "
        "10 ms each, and 10,000 rows of 16 numbers that are in memory already.",
        _ten_times,
        120,
    ),
)
