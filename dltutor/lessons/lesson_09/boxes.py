"""Boxes around the things in each image, for "09.transfer": none, a few, or a crowd."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from dltutor.failures.kit.handles import own_folder
from dltutor.lessons.lesson_09.rewrite import Rewrite

_IMAGES: Final = 40_000
_READ: Final = 16_000
_CROWD: Final = 80  # boxes in one image; the others have 0 to 5

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
    write_boxes(path, images=_IMAGES, seed=1)
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


@contextmanager
def fresh_boxes() -> Iterator[Path]:
    """Other boxes, removed after the block."""
    with tempfile.TemporaryDirectory(prefix="dltutor-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "boxes.json"
        write_boxes(path, images=_IMAGES, seed=2)
        yield path


def _is_boxes(sample: Any) -> bool:
    return (
        isinstance(sample, np.ndarray)
        and sample.dtype == np.float32
        and sample.ndim == 2
        and sample.shape[1] == 4
    )


def _told(sample: Array) -> str:
    first = f", the first {sample[0].astype(int).tolist()}" if len(sample) else ""
    return f"{len(sample)} box{'' if len(sample) == 1 else 'es'}{first}"


TRANSFER: Final = Rewrite(
    broken=Boxes,
    packed=PackedBoxes,
    noun="image",
    fresh=fresh_boxes,
    read=_READ,
    same=lambda sample, truth: bool(np.array_equal(sample, truth)),
    kind="a numpy array of float32 with 4 columns",
    is_kind=_is_boxes,
    told=_told,
)
