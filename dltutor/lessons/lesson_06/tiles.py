"""A dataset of satellite tiles: something deep inside it has no pickle ("06.diagnose")."""

from __future__ import annotations

import logging
import threading

import numpy as np
import torch
from torch.utils.data import Dataset


class Cache:
    """The tiles that were read last."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tiles: dict[int, torch.Tensor] = {}
        self.turn = threading.Lock()


class Reader:
    """Reads a tile, and keeps it for a while."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.log = logging.getLogger("tiles")
        self.cache = Cache(size=4)

    def read(self, number: int) -> torch.Tensor:
        """One tile."""
        with self.cache.turn:
            if number not in self.cache.tiles:
                while len(self.cache.tiles) >= self.cache.size:
                    self.cache.tiles.pop(next(iter(self.cache.tiles)))
                self.cache.tiles[number] = torch.full((self.side, self.side), float(number))
            return self.cache.tiles[number]


class Tiles(Dataset[torch.Tensor]):
    """Tiles of a satellite picture, in a fixed random order."""

    def __init__(self, count: int = 16) -> None:
        self.rng = np.random.default_rng(6)
        self.order = self.rng.permutation(count)
        self.reader = Reader(side=8)
        self.mean = torch.tensor(7.5)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.reader.read(int(self.order[index])) - self.mean
