"""The usual wrong answers to the exercises of lesson 09."""

from __future__ import annotations

import copy
import gc
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from answers import WrongFixes
from dltutor.failures.material.captions import (
    CaptionObjects,
    Captions,
    FixedWidthCaptions,
    PackedCaptions,
)
from dltutor.lessons.lesson_09.boxes import Boxes, PackedBoxes
from dltutor.lessons.lesson_09.captions_task import CaptionTuple


class DataFrame:
    """Pandas' table, as far as a check looks at one: pandas is not installed with the course."""

    __module__ = "pandas.core.frame"

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)


class InAFrame(Dataset[str]):
    def __init__(self, path: str | Path) -> None:
        self.table = DataFrame(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> str:
        return self.table.lines[index]


class CopiedInTheWorker(Captions):
    own: list[str] | None = None

    def __getitem__(self, index: int) -> str:
        if self.own is None:
            self.own = copy.deepcopy(self.captions)
        return self.own[index]


class ReadInTheWorker(Dataset[str]):
    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.length = len(Path(path).read_text().splitlines())
        self.captions: list[str] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        if not self.captions:
            self.captions = Path(self.path).read_text().splitlines()
        return self.captions[index]


class Frozen(Captions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        gc.freeze()


class WithoutCollector(Captions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        gc.disable()


class Collecting(Captions):
    def __getitem__(self, index: int) -> str:
        gc.collect()
        return super().__getitem__(index)


class Cached(Captions):
    @lru_cache(maxsize=None)  # noqa: B019, UP033 - what people write
    def __getitem__(self, index: int) -> str:
        return super().__getitem__(index)


class ByNumber(Dataset[str]):
    def __init__(self, path: str | Path) -> None:
        self.captions = dict(enumerate(Path(path).read_text().splitlines()))

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class Forgets(FixedWidthCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.captions = self.captions.astype("S24")


class InAscii(FixedWidthCaptions):
    def __getitem__(self, index: int) -> str:
        return super().__getitem__(index).encode("ascii", "ignore").decode()


class AsBytes(FixedWidthCaptions):
    def __getitem__(self, index: int) -> Any:
        return bytes(self.captions[index])


class WithoutTheLast(PackedCaptions):
    def __len__(self) -> int:
        return super().__len__() - 1


class WrongInWorkers(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        return super().__getitem__(0 if get_worker_info() else index)


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, path: str | Path) -> None:
        super().__init__(Captions(path), num_workers=0)


class Misspelt(Captions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(pth)  # type: ignore[name-defined] # noqa: F821


class BoxObjects(Boxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        listed, self.boxes = self.boxes, np.empty(len(self.boxes), dtype=object)
        self.boxes[:] = listed


class SmallArrays(Boxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.boxes = [np.array(b, dtype=np.float32).reshape(-1, 4) for b in self.boxes]

    def __getitem__(self, index: int) -> Any:
        return self.boxes[index]


class SmallTensors(SmallArrays):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.boxes = [torch.from_numpy(boxes) for boxes in self.boxes]

    def __getitem__(self, index: int) -> Any:
        return self.boxes[index].numpy()


class Padded(Dataset[Any]):
    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        self.counts = np.array([len(boxes) for boxes in listed])
        self.rows = np.zeros((len(listed), self.counts.max(), 4), dtype=np.float32)
        for index, boxes in enumerate(listed):
            self.rows[index, : len(boxes)] = np.reshape(boxes, (-1, 4))

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index, : self.counts[index]]


class OneOff(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] : self.starts[index + 1] - 1]


class OfAllSizes(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).reshape(-1)


class AsTensors(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(super().__getitem__(index))


class OnlyWithBoxes(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.starts = np.unique(self.starts)


class EndsInAList(Dataset[Any]):
    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        self.ends = [0]
        for boxes in listed:
            self.ends.append(self.ends[-1] + len(boxes))
        self.rows = np.array([row for boxes in listed for row in boxes], dtype=np.float32)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.ends[index] : self.ends[index + 1]]


WRONG_FIXES: WrongFixes = {
    "09.predict": {
        "nobody writes": (lambda: "a", "Somebody writes for you"),
        "what was read": (lambda: "b", "copied by pages"),
        "a full copy at the start": (lambda: "d", "Under fork nothing is copied at the start"),
        "no option": (lambda: "e", "none of the options"),
    },
    "09.diagnose": {
        "a tuple cannot change": (lambda: {"B", "E"}, "A grows"),
        "numpy helps": (lambda: {"A", "E"}, "B grows"),
        "a dict is no list": (lambda: {"A", "B"}, "E grows"),
        "every one": (lambda: set("ABCDE"), "C does not grow"),
        "what is there is copied": (lambda: "ABDE", "D does not grow"),
        "another letter": (lambda: {"F"}, "none of the five"),
        "a number": (lambda: 3, "a set of letters"),
    },
    "09.fix": {
        "a numpy object array": (lambda: CaptionObjects, "dtype `object`: 100000 pointers"),
        "pandas": (lambda: InAFrame, "a pandas DataFrame of 100000 rows"),
        "a tuple": (lambda: CaptionTuple, "a tuple of 100000 str objects"),
        "a dict": (lambda: ByNumber, "a dict of 100000 keys"),
        "copy.deepcopy in the worker": (lambda: CopiedInTheWorker, "makes a copy of what main has"),
        "read in the worker": (
            lambda: ReadInTheWorker,
            "loads all of it for itself",
        ),
        "gc.freeze()": (lambda: Frozen, "`gc.freeze()` is on"),
        "gc.disable()": (lambda: WithoutCollector, "collector is switched off"),
        "gc.collect() for each sample": (lambda: Collecting, "A collection goes through every"),
        "lru_cache": (lambda: Cached, "keeps what it returned"),
        "num_workers=0": (lambda: WithoutWorkers, "keeps its workers"),
        "cut to a width": (lambda: Forgets, "captions are not as before"),
        "no accents": (lambda: InAscii, "at the Café"),
        "bytes": (lambda: AsBytes, "of the type `bytes`"),
        "one too few": (lambda: WithoutTheLast, "the file holds 100000 captions"),
        "wrong in workers only": (lambda: WrongInWorkers, "Without workers the captions are right"),
        "an object": (lambda: [1, 2], "a class, got"),
        "a slip": (lambda: Misspelt, "name 'pth' is not defined"),
    },
    "09.transfer": {
        "a numpy object array": (lambda: BoxObjects, "dtype `object`: 40000 pointers"),
        "a list of small arrays": (lambda: SmallArrays, "a list of 40000 numpy arrays"),
        "a list of small tensors": (lambda: SmallTensors, "a list of 40000 tensors"),
        "offsets in a list": (lambda: EndsInAList, "`ends` is a list of 40001 int objects"),
        "padded to the crowd": (lambda: Padded, "most of it is padding"),
        "the last box lost": (lambda: OneOff, "images are not as before"),
        "flat": (lambda: OfAllSizes, "with the shape (8,)"),
        "tensors": (lambda: AsTensors, "of the type `Tensor`"),
        "images without boxes lost": (lambda: OnlyWithBoxes, "the file holds 40000 images"),
    },
}
