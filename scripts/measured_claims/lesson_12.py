"""Measure the claims for lesson 12: random numbers and samples that repeat without an error."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from dltutor.failures.lost_tail import Stream
from dltutor.failures.tools.contract import load
from dltutor.lessons.lesson_12.job import census
from measured_claims import Facts, Samples
from measured_claims.lesson_04 import samplers_epoch  # noqa: F401 - lesson_12.toml names it, too

_DRAWS: Final = 128  # random numbers in two epochs


def _draws(**options: Any) -> Any:
    # Return a loader whose 64 samples are draws from numpy's global generator.
    dataset = Samples(lambda index: float(np.random.normal()), 64)
    return load(dataset, 2, "fork", batch_size=8, **options)


def _different(init: Callable[[int], None] | None, **options: Any) -> int:
    return len(census(_draws(worker_init_fn=init, **options), epochs=2))


def _from_torch(worker_id: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def numpy() -> Facts:
    by_id = _different(lambda worker_id: np.random.seed(worker_id))
    return {
        "draws": _DRAWS,
        "fresh": _different(None),
        "persistent": _different(None, persistent_workers=True),
        "by id": by_id,
        "one": _different(lambda worker_id: np.random.seed(42)),
        "repeats": by_id < _DRAWS,
        "from torch": _different(_from_torch),
    }


class _Whole(IterableDataset[int]):
    """A stream of 64 records that every worker yields in full."""

    def __len__(self) -> int:
        return 64

    def __iter__(self) -> Any:
        return iter(range(64))


def _warnings_of(loader: DataLoader[Any]) -> tuple[int, int]:
    # Return the number of samples in an epoch, and how often torch warns that they're too many.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        len(loader)  # because torch doesn't warn unless something asks for the length
        samples = sum(len(batch) for batch in loader)
    return samples, sum("Length of IterableDataset" in str(each.message) for each in caught)


def warning() -> Facts:
    tried = [(workers, size) for workers in (2, 4) for size in (1, workers - 1, workers, 8)]
    shown, silent = {}, []
    for workers, size in tried:
        samples, count = _warnings_of(load(_Whole(), workers, "fork", batch_size=size))
        title = f"{workers} workers, `batch_size={size}`"
        shown[title] = f"{samples} samples, {count} warnings"
        if not count:
            silent.append((workers, size))
    return {
        "found": shown,
        "by size": silent == [(workers, size) for workers, size in tried if size >= workers],
        "otherwise": "False." if silent else "True.",
    }


def tail() -> Facts:
    lost = {}
    for workers in (0, 2, 4):
        loader = load(Stream(64), workers, "fork", batch_size=20, drop_last=True)
        lost[workers] = 64 - len(census(loader))
    shown = [f"{count} with {workers} workers" for workers, count in lost.items()]
    return {"lost": shown, "more than one": lost[2] >= 20}


def same_seed() -> Facts:
    drawn = []
    for _ in range(2):  # each pass stands in for a rank, and both ranks set the same seed
        torch.manual_seed(0)
        drawn.append(census(_draws()))
    return {"same": (drawn[0] & drawn[1]).total()}
