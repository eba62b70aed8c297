"""Grade "09.transfer", which asks for a dataset of boxes that makes no worker's memory grow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from dltutor.failures.tools.handles import own_folder
from dltutor.lessons.lesson_09.fix import grader

_CROWD: Final = 300  # boxes in one image, more than a byte can count. Other images have 0 to 5.

Array = NDArray[Any]


class Boxes(Dataset[Array]):
    """A dataset of arrays, one for each image, with a row of x, y, width, height for each box."""

    def __init__(self, path: str | Path) -> None:
        self.boxes = json.loads(Path(path).read_text())

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: int) -> Array:
        return np.array(self.boxes[index], dtype=np.float32).reshape(-1, 4)


@dataclass(frozen=True)
class Kept:
    """The right boxes of all images in one array, so that comparing with them copies no pages.

    The rows for image i end where the rows for image i + 1 begin.
    """

    starts: Array
    rows: Array

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Array:
        return self.rows[self.starts[index] : self.starts[index + 1]]


@cache
def shared_boxes() -> Path:
    """Return the path of a file with boxes for the lesson.

    The first call writes the file, and Python removes it at exit.
    """
    path = own_folder() / "boxes.json"
    write_boxes(path, images=40_000, seed=1)
    return path


def write_boxes(path: Path, *, images: int, seed: int) -> Kept:
    """Write each image's boxes to a JSON file. A box is four numbers, and some aren't whole.

    Returns:
        The same boxes, stored without Python objects.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, images)
    counts[[0, 1, -1]] = 2, 0, 3
    counts[images // 2] = _CROWD
    starts = np.cumsum([0, *counts])
    rows = rng.integers(260, 4000, (int(starts[-1]), 4))
    rows[2] = 0  # four zeros are a valid box
    listed = rows.tolist()
    listed[::9] = (rows[::9] + 0.25).tolist()
    path.write_text(json.dumps([listed[a:b] for a, b in pairwise(starts.tolist())]))
    return Kept(starts, np.array(listed, dtype=np.float32))


GRADER: Final = grader(
    Boxes, lambda path, number: write_boxes(path, images=40_000, seed=2 + number)
)
