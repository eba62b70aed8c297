"""The model, the pictures and the validation of "10.transfer"."""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE: Final = 64
BATCH: Final = 16
BATCH_BYTES: Final = BATCH * 3 * SIDE * SIDE * 4


class Scans(Dataset[tuple[torch.Tensor, int]]):
    """Scans of ten kinds.

    Args:
        count: How many.
        seed: Other seeds give other scans.
    """

    def __init__(self, count: int = 256, seed: int = 0) -> None:
        self.count, self.seed = count, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        return torch.rand(3, SIDE, SIDE, generator=random), index % 10


def make_model(seed: int = 0) -> nn.Module:
    """A small classifier, always the same for a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)
        )


def scans_loader(seed: int = 0) -> DataLoader[Any]:
    """Scans in batches of 16, by two forked workers."""
    return DataLoader(Scans(seed=seed), BATCH, num_workers=2, multiprocessing_context="fork")


def validate(model: nn.Module, loader: DataLoader[Any]) -> tuple[Any, list[torch.Tensor]]:
    """The mean loss, and the hardest scan of each batch, to be looked at in the morning."""
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = F.cross_entropy(model(images), labels, reduction="none")
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
    return total / len(loader), hardest
