"""A fresh film for "03.fix", some of its frames deadly; shards and the starter of "03.transfer"."""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

WORKERS: Final = 2  # of a shard's loader
_SAMPLES: Final = 8  # of a shard
_PIXELS: Final = 64  # of a frame
_PROMISED: Final = (2**31, 65)  # more pixels than there are


@dataclass(frozen=True)
class Film:
    """Frames, one file each.

    Args:
        folder: Where the files are.
        names: Their names, in order.
        pixels: Name -> the pixels, of each frame that can be decoded.
    """

    folder: str
    names: tuple[str, ...]
    pixels: dict[str, bytes]

    @property
    def paths(self) -> list[Path]:
        """The files, in order."""
        return [Path(self.folder, name) for name in self.names]

    @property
    def deadly(self) -> set[str]:
        """The names of the frames that end the process that decodes them."""
        return set(self.names) - self.pixels.keys()


def fresh_film(frames: int, deadly: Sequence[int]) -> Film:
    """A film that the learner has not seen, in a temporary folder.

    Args:
        frames: How many it has.
        deadly: Which of them end the process that decodes them.
    """
    chance = random.Random(frames)
    folder = tempfile.mkdtemp(prefix="dltutor-film-")
    names = tuple(f"take-{number:03}.frame" for number in chance.sample(range(1000), frames))
    pixels = {}
    for place, name in enumerate(names):
        data = chance.randbytes(_PIXELS)
        length = _PROMISED[deadly.index(place)] if place in deadly else _PIXELS
        Path(folder, name).write_bytes(struct.pack("<I", length) + data)
        if place not in deadly:
            pixels[name] = data
    return Film(folder, names, pixels)


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
