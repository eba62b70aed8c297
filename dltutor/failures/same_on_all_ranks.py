"""All ranks set the same seed, so they all draw the same random numbers for different samples.

Symptom: the same random augmentation on all GPUs. In each step, every rank gets other images, but
crops and masks them in the same way. There's no error, and a job on 8 GPUs sees an eighth of the
augmentations that it should.

Mechanism: many scripts call something like `set_seed(42)` on every rank, so that all ranks start
with the same weights. That also sets the generator of the main process, from which each loader
draws the seed of an epoch. So on all ranks, the loaders draw the same seed, worker 0 gets the same
seed as worker 0 of every other rank, and so on. A DistributedSampler doesn't change that, because
it has its own seed, which has to be the same on all ranks. DistributedDataParallel copies the
weights from rank 0 anyway.

A generator that you pass to the loader (`generator=`, seeded with a constant) and a
`worker_init_fn` that seeds with the worker's number do the same.

Fix: add the rank to the seed, as in `set_seed(42 + rank)`. Or make the generator in `__getitem__`,
from a seed, the epoch, and the index. Then a sample doesn't depend on the number of ranks or
workers, either. To check, print the rank and one random number in `__getitem__`.

Seen in: transformers#37932 (2025, the Trainer's `seed_worker`), accelerate#236, detr#297.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load
from dltutor.failures.tools.two_ranks import RANKS, on_two_ranks

LENGTH, EPOCHS, SEED = 64, 1, 42


class Masked(Dataset[torch.Tensor]):
    """A dataset that masks about half of each signal at random, differently in each epoch."""

    def __init__(self) -> None:
        self.signals = torch.ones(LENGTH, 64)

    def set_epoch(self, epoch: int) -> None:
        pass

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.signals[index] * (torch.rand(64) < 0.5)


class MaskedByIndex(Masked):
    """A dataset of signals whose masks depend only on a seed, the epoch, and the index."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = torch.tensor(0).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def __getitem__(self, index: int) -> torch.Tensor:
        rng = np.random.default_rng((SEED, int(self.epoch), index))
        return self.signals[index] * torch.from_numpy(rng.random(64) < 0.5)


def set_seed(seed: int) -> None:
    """Seed all global generators."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run an epoch, and count the masks that all ranks have drawn.

    The signals are ones, so a sample is its mask.
    """
    dataset: Any = loader.dataset
    sampler: Any = loader.sampler
    set_seed(SEED)
    masks: list[tuple[float, ...]] = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        dataset.set_epoch(epoch)
        masks += [tuple(mask.tolist()) for batch in loader for mask in batch]
    of_ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, set(masks))
    return Finding(len(set.intersection(*of_ranks)), f"of {len(masks)} masks are on all ranks")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that draws masks from the global generator."""
    return _case(Masked, workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that draws masks from a generator seeded with seed, epoch, and index."""
    return _case(MaskedByIndex, workers, start_method)


def _case(masked: type[Masked], workers: int, start_method: str) -> Case:
    # Forking rank 1's workers is fast, and workers get the same seeds under any start method.
    other = partial(_load, masked, 1, workers, "fork")
    loader = _load(masked, 0, workers, start_method)
    return Case(loader, partial(on_two_ranks, loop=train, other=other))


def _load(
    masked: type[Masked], rank: int, workers: int, start_method: str
) -> DataLoader[torch.Tensor]:
    dataset = masked()
    sampler = DistributedSampler[torch.Tensor](dataset, RANKS, rank)
    return load(dataset, workers, start_method, sampler=sampler, batch_size=8)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(EPOCHS * LENGTH // RANKS)
)
