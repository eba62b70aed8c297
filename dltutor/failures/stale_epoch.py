"""Persistent workers don't see the new epoch, so every epoch is cropped like the first.

Symptom: set_epoch has no effect with persistent_workers=True. The augmentation, curriculum, or crop
never changes, and there's no error and no warning.

Mechanism: a worker gets its copy of the dataset when it starts. Fresh workers start in each epoch,
so they happen to get an attribute that you set before the epoch. Persistent workers start once, so
`dataset.set_epoch(1)` changes the main process's copy, which no worker reads.
Samplers aren't affected, because they run in the main process.

Fix: keep the epoch in memory that all processes share. A tensor of one number will do:
`torch.tensor(0).share_memory_()`. Only the main process writes this tensor, so it needs no lock.
Set the epoch before you iterate the loader, because the workers fetch ahead as soon as you do. A
`multiprocessing.Value` from the start method's context does the same.

Seen in: pytorch#97326, datasets#6673, starVLA#470. torch has had `persistent_workers` since 1.7.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

CLIPS, EPOCHS, CROP = 16, 4, 32


class Clips(Dataset[torch.Tensor]):
    """A dataset of long recordings, cropped to a different stretch in each epoch."""

    def __init__(self) -> None:
        self.clips = torch.arange(CLIPS * 1000).reshape(CLIPS, 1000)
        self.epoch = torch.tensor(0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = torch.tensor(epoch)

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = (index * 31 + int(self.epoch) * CROP) % (1000 - CROP)
        return self.clips[index, start : start + CROP]


class SharedEpochClips(Clips):
    """A dataset of long recordings, with the epoch in shared memory, where the workers see it."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch.share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run four epochs, and count the samples that differ from `dataset[i]` in the main process."""
    dataset: Any = loader.dataset
    wrong = 0
    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        wanted = torch.stack([dataset[index] for index in range(len(dataset))])
        came = torch.cat(list(loader))
        wrong += int((came != wanted).any(dim=1).sum())
    return Finding(wrong, f"of {EPOCHS * CLIPS} samples wrong")


def broken(*, workers: int = 2, start_method: str = "fork", persistent: bool = True) -> Case:
    """Build a case whose dataset keeps the epoch in an ordinary attribute."""
    return Case(load(Clips(), workers, start_method, persistent_workers=persistent), train)


def fixed(*, workers: int = 2, start_method: str = "fork", persistent: bool = True) -> Case:
    """Build a case whose dataset keeps the epoch in shared memory."""
    loader = load(SharedEpochClips(), workers, start_method, persistent_workers=persistent)
    return Case(loader, train)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts((EPOCHS - 1) * CLIPS)
)
