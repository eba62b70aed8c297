"""Shards of readings, some of them spoilt, and the loop of "03.transfer"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

WORKERS: Final = 2
_SAMPLES: Final = 8


class Readings(Dataset[torch.Tensor]):
    """Readings of a sensor, as text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(float(self.texts[index]))


def make_shards(
    *spoilt: str, make: Callable[..., DataLoader[Any]] = DataLoader
) -> list[DataLoader[Any]]:
    """A loader with two workers for each shard.

    Args:
        spoilt: For each shard what stands in the place of its sixth reading; empty for a shard
            without a fault.
        make: The class of the loaders.
    """
    shards = []
    for number, text in enumerate(spoilt):
        texts = [str(number + place / 8) for place in range(_SAMPLES)]
        if text:
            texts[5] = text
        shards.append(make(Readings(texts), 2, num_workers=WORKERS, multiprocessing_context="fork"))
    return shards


def train(shards: list[DataLoader[Any]]) -> list[Any]:
    """The starter of "03.transfer": read every shard, and report those that failed."""
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass  # a training step
        except ValueError as error:
            failed.append(error)
    return failed
