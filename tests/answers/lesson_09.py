"""Define right and wrong answers to the exercises of lesson 09."""

from __future__ import annotations

import gc
import json
import linecache
import os
import pickle
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from cells import run_copied
from torch.utils.data import Dataset

from answers import RightAnswers, WrongFixes, after_init, delivering, setting
from dltutor.failures.data.captions import (
    Captions,
    CaptionTuple,
    FixedWidthCaptions,
    PackedCaptions,
    SharedCaptions,
    TensorCaptions,
)
from dltutor.lessons.lesson_09.transfer import Boxes


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


class InLinecache(Dataset[str]):
    """Wrong, because the captions are strings in a list, which Python's `linecache` keeps."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.length = len(linecache.getlines(self.path))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        return linecache.getline(self.path, index + 1).rstrip("\n")


PackedStrings = run_copied("09", "on-call")["PackedStrings"]


class FromTheNotebook(Dataset[str]):
    def __init__(self, path: str | Path) -> None:
        self.captions = PackedStrings(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class FromTheFile(Dataset[str]):
    """Right: keeps only the lines' offsets and one open file, and reads one line per sample."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.file = path, None
        with open(path, "rb") as file:
            self.starts = np.cumsum([0, *map(len, file)])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> str:
        if self.file is None:
            self.file = os.open(self.path, os.O_RDONLY)
        start, stop = self.starts[index : index + 2].tolist()
        return os.pread(self.file, stop - start - 1, start).decode()


class EmptyOnesLost(FromTheNotebook):
    def __init__(self, path: str | Path) -> None:
        self.captions = PackedStrings(Path(path).read_text().rstrip("\n").split("\n"))


class PackedBoxes(Dataset[Any]):
    """A right answer to "09.transfer", which keeps all rows in one array.

    Image i's rows end where image i + 1's rows begin.
    """

    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        self.starts = np.cumsum([0, *map(len, listed)])
        self.rows = np.array([row for boxes in listed for row in boxes], dtype=np.float32)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] : self.starts[index + 1]]


class SmallArrays(Boxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.boxes = [np.array(b, dtype=np.float32).reshape(-1, 4) for b in self.boxes]

    def __getitem__(self, index: int) -> Any:
        return self.boxes[index]


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


class MappedInTheWorker(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.file = f"{path}.npy"
        np.save(self.file, self.rows)
        self.rows = None

    def __getitem__(self, index: int) -> Any:
        if self.rows is None:
            self.rows = np.load(self.file, mmap_mode="r")
        return np.array(super().__getitem__(index))


class Pickled(Dataset[Any]):
    """Right: pickles each array, and keeps all pickles in one buffer, as detectron2 does."""

    def __init__(self, path: str | Path) -> None:
        arrays = map(Boxes.__getitem__, repeat(boxes := Boxes(path)), range(len(boxes)))
        pickled = [np.frombuffer(pickle.dumps(each, -1), np.uint8) for each in arrays]
        self.ends = np.cumsum([len(each) for each in pickled])
        self.buffer = np.concatenate(pickled)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Any:
        start = self.ends[index - 1].item() if index else 0
        return pickle.loads(memoryview(self.buffer[start : self.ends[index].item()]))


WRONG_FIXES: WrongFixes = {
    "09.diagnose": {
        "a tuple cannot change": ({"B", "E"}, "wrong-A"),
        "numpy helps": ({"A", "E"}, "wrong-B"),
        "a dict is no list": ({"A", "B"}, "wrong-E"),
        "every one": (set("ABCDE"), "wrong-C"),
        "what is there is copied": ("ABDE", "wrong-D"),
        "another letter": ({"F"}, "unknown-letter"),
        "a set of numbers": ({1, 2}, "not-letters"),
    },
    "09.fix": {
        "a tuple": (CaptionTuple, "grew"),
        "read in the worker": (ReadInTheWorker, "started-larger"),
        "gc.freeze()": (after_init(Captions, lambda self: gc.freeze()), "grew-frozen"),
        "cut to a width": (
            setting(FixedWidthCaptions, captions=lambda self: self.captions.astype("S24")),
            "different",
        ),
        "the edges stripped": (delivering(PackedCaptions, str.strip), "different"),
        "an object": ([1, 2], "not-a-class"),
        "a cache of a library": (InLinecache, "grew-elsewhere"),
        "empty ones at the end lost": (EmptyOnesLost, "length"),
    },
    "09.transfer": {
        "a list of small arrays": (SmallArrays, "grew"),
        "padded to ten boxes": (
            setting(
                Padded,
                counts=lambda self: self.counts.clip(max=10),
                rows=lambda self: self.rows[:, :10].copy(),
            ),
            "different",
        ),
        "images without boxes lost": (
            setting(PackedBoxes, starts=lambda self: np.unique(self.starts)),
            "length",
        ),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "09.diagnose": {"a set": {"A", "B", "E"}},
    "09.fix": {
        "packed": PackedCaptions,
        "of fixed width": FixedWidthCaptions,
        "a tensor": TensorCaptions,
        "shared memory": SharedCaptions,
        "the notebook's class": FromTheNotebook,
        "places in the file": FromTheFile,
    },
    "09.transfer": {
        "packed": PackedBoxes,
        "padded to the crowd": Padded,
        "an array mapped in each worker": MappedInTheWorker,
        "each pickled, in one array": Pickled,
    },
}
