"""Define right and wrong answers to the exercises of lesson 09."""

from __future__ import annotations

import gc
import json
import linecache
import multiprocessing
import os
import pickle
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cells import source
from torch.utils.data import DataLoader, Dataset

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.captions import (
    Captions,
    CaptionTuple,
    FixedWidthCaptions,
    PackedCaptions,
    SharedCaptions,
    TensorCaptions,
)
from dltutor.lessons.lesson_09.transfer import Boxes
from notebooks import NOTEBOOKS, read


class DataFrame:
    """Stands in for pandas' DataFrame in a check, because the course doesn't install pandas."""

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


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, path: str | Path) -> None:
        super().__init__(Captions(path), num_workers=0)


class Stripped(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        return super().__getitem__(index).strip()


class InLinecache(Dataset[str]):
    """Python's own line cache keeps the file in memory."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.length = len(linecache.getlines(self.path))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        return linecache.getline(self.path, index + 1).rstrip("\n")


class Wide(Dataset[str]):
    """Keeps the captions in numpy's Unicode type, which takes four bytes per character."""

    def __init__(self, path: str | Path) -> None:
        self.captions = np.array(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        caption: str = self.captions[index]  # a `np.str_`, which is a `str`
        return caption


def on_call() -> dict[str, Any]:
    """Return what the code in the notebook's last section defines."""
    text = source("on-call", read(NOTEBOOKS / "09-copy-on-read.ipynb"))
    defined: dict[str, Any] = {}
    exec(text.partition("```python\n")[2].partition("```")[0], defined)
    return defined


PackedStrings = on_call()["PackedStrings"]


class FromTheNotebook(Dataset[str]):
    def __init__(self, path: str | Path) -> None:
        self.captions = PackedStrings(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class FromTheFile(Dataset[str]):
    """Keeps only the offsets. Each worker opens the file itself and reads one line."""

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


class StartsInAList(FromTheFile):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.starts = self.starts.tolist()

    def __getitem__(self, index: int) -> str:
        with open(self.path, "rb") as file:
            file.seek(self.starts[index])
            return file.readline()[:-1].decode()


class EmptyOnesLost(FromTheNotebook):
    def __init__(self, path: str | Path) -> None:
        self.captions = PackedStrings(Path(path).read_text().rstrip("\n").split("\n"))


class OpenedOnFirstUse(FromTheFile):
    """If main has opened the file, its workers share it, and with it the read position."""

    def __getitem__(self, index: int) -> str:
        if self.file is None:
            self.file = os.open(self.path, os.O_RDONLY)
        start, stop = self.starts[index : index + 2].tolist()
        os.lseek(self.file, start, os.SEEK_SET)
        return os.read(self.file, stop - start - 1).decode(errors="replace")


class InAManager(Dataset[str]):
    """A server process holds the captions for as long as the dataset exists."""

    def __init__(self, path: str | Path) -> None:
        self.manager = multiprocessing.Manager()
        self.captions = self.manager.list(Path(path).read_text().splitlines())
        self.length = len(self.captions)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        return str(self.captions[index])


class PackedBoxes(Dataset[Any]):
    """Keeps all rows in one array. Image i's rows end where image i + 1's rows begin."""

    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        self.starts = np.cumsum([0, *map(len, listed)])
        self.rows = np.array([row for boxes in listed for row in boxes], dtype=np.float32)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] : self.starts[index + 1]]


class WholeNumbers(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.whole = self.rows.astype(np.int16)

    def __getitem__(self, index: int) -> Any:
        rows = self.whole[self.starts[index] : self.starts[index + 1]]
        return rows.astype(np.float32)


class CountedInBytes(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.starts = np.cumsum([0, *np.diff(self.starts).astype(np.uint8)])


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


class PaddedToTen(Padded):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.counts = self.counts.clip(max=10)
        self.rows = self.rows[:, :10].copy()


class OneOff(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] : self.starts[index + 1] - 1]


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


class LoadedInTheWorker(PackedBoxes):
    mapped: str | None = None

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.file = f"{path}.npy"
        np.save(self.file, self.rows)
        self.rows = None

    def __getitem__(self, index: int) -> Any:
        if self.rows is None:
            self.rows = np.load(self.file, mmap_mode=self.mapped)
        return np.array(super().__getitem__(index))


class MappedInTheWorker(LoadedInTheWorker):
    mapped = "r"


class PackedAsText(Dataset[Any]):
    def __init__(self, path: str | Path) -> None:
        self.boxes = PackedStrings(map(json.dumps, json.loads(Path(path).read_text())))

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: int) -> Any:
        return np.array(json.loads(self.boxes[index]), dtype=np.float32).reshape(-1, 4)


class Pickled(Dataset[Any]):
    """Pickles each array, and keeps all of them in one buffer, as detectron2 does."""

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


class ViewsInAList(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.views = np.split(self.rows, self.starts[1:-1])

    def __getitem__(self, index: int) -> Any:
        return self.views[index]


WRONG_FIXES: WrongFixes = {
    "09.predict": {
        "nobody writes": (lambda: "a", "a"),
        "what was read": (lambda: "b", "b"),
        "a full copy at the start": (lambda: "d", "d"),
    },
    "09.diagnose": {
        "a tuple cannot change": (lambda: {"B", "E"}, "wrong-A"),
        "numpy helps": (lambda: {"A", "E"}, "wrong-B"),
        "a dict is no list": (lambda: {"A", "B"}, "wrong-E"),
        "every one": (lambda: set("ABCDE"), "wrong-C"),
        "what is there is copied": (lambda: "ABDE", "wrong-D"),
        "another letter": (lambda: {"F"}, "unknown-letter"),
        "a set of numbers": (lambda: {1, 2}, "not-letters"),
    },
    "09.fix": {
        "pandas": (lambda: InAFrame, "grew"),
        "a tuple": (lambda: CaptionTuple, "grew"),
        "a dict": (lambda: ByNumber, "grew"),
        "read in the worker": (lambda: ReadInTheWorker, "started-larger"),
        "gc.freeze()": (lambda: Frozen, "grew-frozen"),
        "places in a list": (lambda: StartsInAList, "grew"),
        "lru_cache": (lambda: Cached, "grew"),
        "num_workers=0": (lambda: WithoutWorkers, "a-loader"),
        "cut to a width": (lambda: Forgets, "different"),
        "no accents": (lambda: InAscii, "different"),
        "bytes": (lambda: AsBytes, "different"),
        "the edges stripped": (lambda: Stripped, "different"),
        "an object": (lambda: [1, 2], "not-a-class"),
        "a cache of a library": (lambda: InLinecache, "grew-elsewhere"),
        "empty ones at the end lost": (lambda: EmptyOnesLost, "length"),
        "a file opened on first use": (lambda: OpenedOnFirstUse, "different"),
    },
    "09.transfer": {
        "a numpy object array": (lambda: BoxObjects, "grew"),
        "a list of small arrays": (lambda: SmallArrays, "grew"),
        "offsets in a list": (lambda: EndsInAList, "grew"),
        "padded to ten boxes": (lambda: PaddedToTen, "different"),
        "the last box lost": (lambda: OneOff, "different"),
        "whole numbers": (lambda: WholeNumbers, "different"),
        "counts of one byte": (lambda: CountedInBytes, "different"),
        "tensors": (lambda: AsTensors, "different"),
        "images without boxes lost": (lambda: OnlyWithBoxes, "length"),
        "an array loaded in each worker": (lambda: LoadedInTheWorker, "started-larger"),
        "views in a list": (lambda: ViewsInAList, "grew"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "09.predict": {
        "the letter": lambda: "c",
    },
    "09.diagnose": {
        "a set": lambda: {"A", "B", "E"},
        "a sentence": lambda: "A,B and E",
    },
    "09.fix": {
        "packed": lambda: PackedCaptions,
        "of fixed width": lambda: FixedWidthCaptions,
        "a tensor": lambda: TensorCaptions,
        "shared memory": lambda: SharedCaptions,
        "numpy's unicode": lambda: Wide,
        "the notebook's class": lambda: FromTheNotebook,
        "places in the file": lambda: FromTheFile,
        "a manager": lambda: InAManager,
    },
    "09.transfer": {
        "packed": lambda: PackedBoxes,
        "padded to the crowd": lambda: Padded,
        "an array mapped in each worker": lambda: MappedInTheWorker,
        "each packed as JSON": lambda: PackedAsText,
        "each pickled, in one array": lambda: Pickled,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "09.predict": {"nothing yet": (lambda: ..., "Not attempted", "no-letter")},
    "09.diagnose": {
        "nothing yet": (lambda: ..., "Not attempted", "no-letters"),
        "None": (lambda: None, "Not attempted", "no-letters"),
    },
    "09.fix": {"the starter": (lambda: Captions, "Not attempted", "starter-class")},
    "09.transfer": {"the starter": (lambda: Boxes, "Not attempted", "starter-class")},
}
