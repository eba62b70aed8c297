"""The satellite tiles of "06.diagnose", and the starters of "06.fix" and "06.transfer"."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch.utils.data import Dataset

SIZE: Final = 8  # bytes of a record
CLIPS: Final = 16
LENGTH: Final = 64  # values of a clip


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
    """Tiles of a satellite image, in a fixed random order."""

    def __init__(self, count: int = 16) -> None:
        self.rng = np.random.default_rng(6)
        self.order = self.rng.permutation(count)
        self.reader = Reader(side=8)
        self.mean = torch.tensor(7.5)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.reader.read(int(self.order[index])) - self.mean


class MyRecords(Dataset[torch.Tensor]):
    """The starter of "06.fix": records of 8 bytes each, read from one large file."""

    def __init__(self, path: str | Path, count: int) -> None:
        self.path = path
        self.count = count
        self.handle = open(self.path, "rb")  # noqa: SIM115 - that is its fault

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(list(os.pread(self.handle.fileno(), SIZE, index * SIZE)))


class MyClips(Dataset[torch.Tensor]):
    """The starter of "06.transfer": clips of sound with noise, scaled to their loudest value."""

    def __init__(self, path: str | Path, seed: int) -> None:
        self.clips = torch.load(path)
        self.generator = torch.Generator().manual_seed(seed)
        self.scale = lambda clip: clip / clip.abs().max()

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        clip = self.clips[index]
        noise = 0.1 * torch.randn(clip.shape, generator=self.generator)
        return self.scale(clip + noise)  # type: ignore[no-any-return,no-untyped-call]  # a lambda


def write_clips(path: Path, *, loud: float = 0.5) -> torch.Tensor:
    """Write a file of clips that are all the same: what differs between samples is their noise.

    Args:
        path: The file.
        loud: The loudest value of a clip; 0 is silence.

    Returns:
        The clip.
    """
    clip = loud * torch.sin(torch.linspace(0, 20, LENGTH))
    torch.save(clip.repeat(CLIPS, 1), path)
    return clip
