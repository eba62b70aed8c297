"""Lesson 12: silently the same."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from dltutor.failures.kit.contract import load
from dltutor.failures.lost_tail import Stream
from dltutor.lessons.lesson_12.job import census
from measured_claims import Claim, Measured, Source

_SEEDS: Final = Source(
    "pytorch#5059, on numpy's seeds in workers",
    "",
    "https://github.com/pytorch/pytorch/issues/5059",
)
_RANDOMNESS: Final = Source(
    "PyTorch's notes on reproducibility",
    "",
    "https://docs.pytorch.org/docs/stable/notes/randomness.html",
)
_TAIL: Final = Source(
    "pytorch#33413, on `drop_last`", "", "https://github.com/pytorch/pytorch/issues/33413"
)
_DRAWS: Final = 128


class _Global(Dataset[float]):
    """64 draws from numpy's global generator."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> float:
        return float(np.random.normal())


class _Numbers(IterableDataset[int]):
    """64 records, all of them in each worker."""

    def __len__(self) -> int:
        return 64

    def __iter__(self) -> Any:
        return iter(range(64))


def _different(init: Callable[[int], None] | None, persistent: bool = False) -> int:
    loader = load(
        _Global(), 2, "fork", worker_init_fn=init, persistent_workers=persistent, batch_size=8
    )
    return len(census(loader, epochs=2))


def _recipe(worker_id: int) -> None:
    np.random.seed(worker_id)


def _one_seed(worker_id: int) -> None:
    np.random.seed(42)


def _from_torch(worker_id: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def _numpy() -> Measured:
    fresh, persistent = _different(None), _different(None, persistent=True)
    return Measured(
        f"Two epochs of 64 draws from `np.random` in 2 workers: {fresh} of {_DRAWS} are different "
        f"with fresh workers, {persistent} with persistent ones.",
        "refuted since torch 1.9 for numpy's global generator; holds for generators of your own."
        if fresh == persistent == _DRAWS
        else "holds.",
    )


def _recipes() -> Measured:
    by_id, one = _different(_recipe), _different(_one_seed)
    return Measured(
        f"With `np.random.seed(worker_id)`, {by_id} of {_DRAWS} draws of two epochs are different; "
        f"with `np.random.seed(42)`, {one}.",
        "refuted: it repeats what torch would not." if by_id < _DRAWS else "holds.",
    )


def _documented() -> Measured:
    count = _different(_from_torch)
    return Measured(
        f"With it, {count} of {_DRAWS} draws of two epochs are different.",
        "holds. It is no longer needed: torch seeds all three." if count == _DRAWS else "refuted.",
    )


def _warnings_of(loader: DataLoader[Any]) -> tuple[int, int]:
    # The samples of an epoch, and how many of torch's warnings say that there are too many.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        len(loader)  # as a progress bar does
        samples = sum(len(batch) for batch in loader)
    return samples, sum("Length of IterableDataset" in str(each.message) for each in caught)


def _warning() -> Measured:
    tried = [(workers, size) for workers in (2, 4) for size in (1, workers - 1, workers, 8)]
    found = {
        (workers, size): _warnings_of(load(_Numbers(), workers, "fork", batch_size=size))
        for workers, size in tried
    }
    shown = "; ".join(
        f"{workers} workers, `batch_size={size}`: {samples} samples, {count} warnings"
        for (workers, size), (samples, count) in found.items()
    )
    silent = [pair for pair, (_, count) in found.items() if not count]
    return Measured(
        f"64 records, read by each worker, after `len(loader)`. {shown}.",
        "holds while a batch has fewer samples than there are workers; refuted from there on: it "
        "compares batches with samples."
        if silent == [(workers, size) for workers, size in tried if size >= workers]
        else "holds."
        if not silent
        else "refuted.",
    )


def _tail() -> Measured:
    lost = {}
    for workers in (0, 2, 4):
        loader = load(Stream(64), workers, "fork", batch_size=20, drop_last=True)
        lost[workers] = 64 - len(census(loader))
    shown = ", ".join(f"{count} with {workers} workers" for workers, count in lost.items())
    return Measured(
        f"Of 64 records in batches of 20, lost: {shown}.",
        "holds without workers; refuted with workers: each drops a batch of its own."
        if lost[2] >= 20
        else "holds.",
    )


def _same_seed() -> Measured:
    drawn = []
    for _ in range(2):  # as on two ranks
        torch.manual_seed(0)
        drawn.append(census(load(_Global(), 2, "fork", batch_size=8)))
    same = (drawn[0] & drawn[1]).total()
    return Measured(
        f"`torch.manual_seed(0)` before each of two loaders, as on two ranks: {same} of 64 draws "
        "from `np.random` in the workers are the same.",
        "has a price: the ranks augment alike. Add the rank to the seed of what must differ."
        if same == 64
        else "has no price for the workers.",
    )


def _set_epoch() -> Measured:
    records: Any = range(65)
    orders = []
    for told in (False, True):
        sampler = DistributedSampler[int](records, num_replicas=2, rank=0)
        loader: DataLoader[Any] = load(
            records, 2, "fork", sampler=sampler, persistent_workers=True, batch_size=8
        )
        seen = []
        for epoch in range(2):
            if told:
                sampler.set_epoch(epoch)
            seen.append([number for batch in loader for number in batch.tolist()])
        orders.append(seen[0] == seen[1])
    return Measured(
        "Epoch 1 with persistent workers has "
        f"{'the order' if orders[0] else 'another order than that'} of epoch 0 without `set_epoch`,"
        f" and {'the order' if orders[1] else 'another order than that'} of epoch 0 with it.",
        "refuted for the sampler, which runs in main; holds for a dataset's own `set_epoch`."
        if orders == [True, False]
        else "holds.",
    )


CLAIMS: Final = (
    Claim(
        "All workers draw the same random numbers from numpy.",
        _SEEDS,
        "Two epochs of 64 draws from `np.random` in 2 forked workers, fresh and persistent.",
        _numpy,
    ),
    Claim(
        "`worker_init_fn=lambda worker_id: np.random.seed(worker_id)` makes numpy's random numbers "
        "differ.",
        Source("common advice"),
        "The same draws in fresh workers, with `np.random.seed(worker_id)`, and with a seed of 42.",
        _recipes,
    ),
    Claim(
        "Seed numpy and `random` in each worker from `torch.initial_seed() % 2**32`.",
        _RANDOMNESS,
        "The same draws in fresh workers, with that `worker_init_fn`.",
        _documented,
    ),
    Claim(
        "A stream that each worker reads whole brings a warning, `Length of IterableDataset ... "
        "was reported to be ...`.",
        Source("torch's own warning"),
        "An `IterableDataset` of 64 records with a `__len__`, in 2 and 4 forked workers, in "
        "batches of 1 to 8.",
        _warning,
    ),
    Claim(
        "`drop_last=True` loses less than one batch in each epoch.",
        _TAIL,
        "A stream of 64 records, shared by 0, 2 and 4 forked workers, in batches of 20.",
        _tail,
    ),
    Claim(
        "Call `torch.manual_seed` with the same number on all ranks.",
        Source("common advice"),
        "Two loaders, each made and run after `torch.manual_seed(0)`, whose 2 workers draw from "
        "`np.random`.",
        _same_seed,
    ),
    Claim(
        "`set_epoch` has no effect with `persistent_workers=True`.",
        Source("common advice"),
        "The order of two epochs of a `DistributedSampler` with 2 persistent workers, without "
        "`set_epoch` and with it.",
        _set_epoch,
    ),
)
