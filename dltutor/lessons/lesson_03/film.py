"""A fresh film for "03.fix"; some of its frames end the process that decodes them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_FRAMES: Final = 20
_PIXELS: Final = 64


@dataclass(frozen=True)
class Film:
    """Frames, one file each.

    Args:
        paths: All of them, in order.
        deadly: The names of those that end the process that decodes them.
        pixels: Name -> the pixels, of the others.
    """

    paths: tuple[Path, ...]
    deadly: frozenset[str]
    pixels: dict[str, bytes]


@contextmanager
def fresh_film() -> Iterator[Film]:
    """A film that the learner has not seen, removed after the block. Three frames are deadly."""
    chance = random.Random(3)
    numbers = chance.sample(range(1000), _FRAMES)
    deadly = dict(zip(chance.sample(range(_FRAMES), 3), (2**31, 65, 70_000), strict=True))
    with TemporaryDirectory(prefix="dltutor-film-") as folder:
        pixels = {}
        paths = tuple(Path(folder) / f"take-{number:03}.frame" for number in numbers)
        for place, path in enumerate(paths):
            data = chance.randbytes(_PIXELS)
            path.write_bytes(struct.pack("<I", deadly.get(place, _PIXELS)) + data)
            if place not in deadly:
                pixels[path.name] = data
        yield Film(paths, frozenset(paths[place].name for place in deadly), pixels)
