"""Define loaders whose sampler takes one rank's share, in a module that reads `RANK`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from small_datasets import Numbers, load
from torch.utils.data import Sampler

RANK = int(os.environ.get("RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "4"))


class Rows(Numbers):
    def __init__(self) -> None:
        super().__init__(length=192)


class Share(Sampler[int]):
    """A sampler that shuffles 192 indices in each epoch, and takes this rank's share of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return 192 // RANKS

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        self.epoch += 1
        order = torch.randperm(192, generator=generator)
        return iter(order.tolist()[RANK::RANKS])


def shared_order() -> Any:
    torch.manual_seed(7 + RANK)
    return load(Rows(), batch_size=4, sampler=Share(7))


def own_orders() -> Any:
    torch.manual_seed(7 + RANK)
    return load(Rows(), batch_size=4, sampler=Share(int(torch.randint(2**31, ()))))
