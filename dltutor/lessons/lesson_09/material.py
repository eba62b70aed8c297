"""Boxes around the things in each image; files of captions; five datasets; a drawing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from dltutor.failures.kit.handles import own_folder
from dltutor.failures.material.captions import CaptionDicts, CaptionObjects, FixedWidthCaptions
from dltutor.observation.memory.timeline import ProcessCurves, Timeline

_CROWD: Final = 80  # boxes in one image; the others have 0 to 5
_PLACES: Final = ("a lake", "the Café", "\N{GREEK SMALL LETTER OMEGA} Square", "a very long wall")

Array = NDArray[Any]


class Boxes(Dataset[Array]):
    """The boxes of each image: an array with a row x, y, width, height for each."""

    def __init__(self, path: str | Path) -> None:
        self.boxes = json.loads(Path(path).read_text())

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: int) -> Array:
        return np.array(self.boxes[index], dtype=np.float32).reshape(-1, 4)


class PackedBoxes(Dataset[Array]):
    """All rows in one array; those of image i end where those of image i + 1 begin."""

    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        self.starts = np.cumsum([0, *map(len, listed)])
        self.rows = np.array([row for boxes in listed for row in boxes], dtype=np.float32)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Array:
        return self.rows[self.starts[index] : self.starts[index + 1]]


@cache
def shared_boxes() -> Path:
    """A file of boxes for the lesson; removed when Python exits."""
    path = own_folder() / "boxes.json"
    write_boxes(path, images=40_000, seed=1)
    return path


def write_boxes(path: Path, *, images: int, seed: int) -> None:
    """Write a list of images, each a list of boxes, each a list of four whole numbers."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, images)
    counts[[0, 1, -1]] = 2, 0, 3
    counts[images // 2] = _CROWD
    rows = rng.integers(260, 4000, (int(counts.sum()), 4))
    starts = np.cumsum([0, *counts])
    listed = [rows[a:b].tolist() for a, b in pairwise(starts)]
    path.write_text(json.dumps(listed))


class CaptionTuple(Dataset[str]):
    """The captions in a tuple."""

    def __init__(self, path: str | Path) -> None:
        self.captions = tuple(Path(path).read_text(encoding="utf-8").splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class CaptionLengths(Dataset[int]):
    """The length of each caption; the captions themselves are for the report after the epoch."""

    def __init__(self, path: str | Path) -> None:
        self.captions = Path(path).read_text(encoding="utf-8").splitlines()
        self.lengths = np.array([len(caption) for caption in self.captions])

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> int:
        return int(self.lengths[index])


#: The five datasets of "09.diagnose".
FIVE: Final[dict[str, Callable[[Path], Dataset[Any]]]] = {
    "A": CaptionTuple,
    "B": CaptionObjects,
    "C": FixedWidthCaptions,
    "D": CaptionLengths,
    "E": CaptionDicts,
}


def write_captions(path: Path, count: int) -> None:
    """Write captions unlike the lesson's: letters beyond ASCII, one long, one empty, two alike.

    The first, the last and one between have spaces at an edge.
    """
    lines = [
        f"{n * 31 % count:06}.png shows {n % 97} boats at {_PLACES[n % 4]}" for n in range(count)
    ]
    lines[0] = f" {lines[0]}"
    lines[-1] += "  "
    third = count // 3
    lines[third : third + 4] = ["", f" {lines[5]} ", lines[7], " and ".join(lines[:3])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def workers_own(timeline: Timeline) -> Timeline:
    """The workers of a run without main, and without what they share with others, to be drawn.

    Where a timeline has no PSS, its areas are USS.
    """
    workers = (life for life in timeline.processes if life.role in timeline.workers)
    return replace(timeline, processes=tuple(_unshared(life) for life in workers))


def _unshared(life: ProcessCurves) -> ProcessCurves:
    return replace(life, values={**life.values, "pss": np.full_like(life.values["pss"], np.nan)})
