"""Answers to the exercises of lesson 09, wrong and right."""

from __future__ import annotations

import copy
import gc
import json
import linecache
import multiprocessing
import os
import pickle
import signal
import subprocess
import time
from array import array
from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.captions import (
    CaptionObjects,
    Captions,
    CaptionTuple,
    FixedWidthCaptions,
    PackedCaptions,
    SharedCaptions,
    TensorCaptions,
)
from dltutor.lessons.lesson_09.transfer import Boxes


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


class Stripped(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        return super().__getitem__(index).strip()


class RaisesAtOne(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        if index == 40_001:
            raise LookupError(f"no caption {index}")
        return super().__getitem__(index)


class KillsAtOne(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        if index == 40_001 and get_worker_info():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class TerminatesItsParent(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        if get_worker_info():
            os.kill(os.getppid(), signal.SIGTERM)
        return super().__getitem__(index)


class Sleeps(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        subprocess.Popen(["sleep", "600"], start_new_session=True)


class SleepsInWorkers(PackedCaptions):
    slept = False

    def __getitem__(self, index: int) -> str:
        if get_worker_info() and not self.slept:
            subprocess.Popen(["sleep", "600"], start_new_session=True)
            self.slept = True
        return super().__getitem__(index)


class SleepsInMain(PackedCaptions):
    slept = False

    def __getitem__(self, index: int) -> str:
        if not self.slept:
            subprocess.Popen(["sleep", "600"], start_new_session=True)
            self.slept = True
        return super().__getitem__(index)


class InLinecache(Dataset[str]):
    """Python's own cache of lines holds the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.length = len(linecache.getlines(self.path))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        return linecache.getline(self.path, index + 1).rstrip("\n")


class ForTwoWorkers(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        worker = get_worker_info()
        [0, 0][worker.id if worker else 0]
        return super().__getitem__(index)


class EmptiesItsFile(PackedCaptions):
    kept: ClassVar[Any] = None

    def __init__(self, path: str | Path) -> None:
        size = Path(path).stat().st_size
        if size:
            super().__init__(path)
            EmptiesItsFile.kept = self.text, self.offsets
        self.text, self.offsets = EmptiesItsFile.kept
        Path(path).write_bytes(b"")


class Slow(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        time.sleep(0.01)
        return super().__getitem__(index)


class Wide(Dataset[str]):
    """The captions in numpy's own unicode, four bytes for each character."""

    def __init__(self, path: str | Path) -> None:
        self.captions = np.array(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return str(self.captions[index])


class WideAsItIs(Wide):
    """An element of such an array is a `np.str_`, which is a `str`."""

    def __getitem__(self, index: int) -> str:
        caption: str = self.captions[index]
        return caption


class PackedStrings:
    """The class that the notebook prints, as it prints it; a test holds the two together."""

    def __init__(self, strings: Iterable[str]) -> None:
        self.data, self.ends = bytearray(), array("q")
        for text in strings:
            self.data += text.encode(errors="surrogatepass")
            self.ends.append(len(self.data))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> str:
        index = range(len(self))[index]
        start = self.ends[index - 1] if index else 0
        return self.data[start : self.ends[index]].decode(errors="surrogatepass")


class FromTheNotebook(Dataset[str]):
    def __init__(self, path: str | Path) -> None:
        self.captions = PackedStrings(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class ListWithFourWorkers(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.captions = Path(path).read_text().splitlines()

    def __getitem__(self, index: int) -> str:
        worker = get_worker_info()
        if worker and worker.num_workers == 4:
            return self.captions[index]
        return super().__getitem__(index)


class KeepsTheFirstFile(PackedCaptions):
    kept: ClassVar[Any] = None

    def __init__(self, path: str | Path) -> None:
        if KeepsTheFirstFile.kept is None:
            super().__init__(path)
            KeepsTheFirstFile.kept = self.text, self.offsets
        self.text, self.offsets = KeepsTheFirstFile.kept


class RightForOneEpoch(PackedCaptions):
    asked = 0

    def __getitem__(self, index: int) -> str:
        self.asked += 1
        return super().__getitem__(index) if self.asked <= len(self) else "again"


class KeepsWhatItMade(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.made: dict[int, str] = {}

    def __getitem__(self, index: int) -> str:
        return self.made.setdefault(index, super().__getitem__(index))


class FromTheFile(Dataset[str]):
    """Only the places are kept; each worker opens the file for itself and reads one line."""

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


class Deletes(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        if Path(path).exists():
            super().__init__(path)
            Deletes.kept = self.text, self.offsets
        self.text, self.offsets = Deletes.kept
        Path(path).unlink(missing_ok=True)

    kept: ClassVar[Any] = None


class InSlots:
    __slots__ = ("packed",)

    def __init__(self, path: str | Path) -> None:
        self.packed = PackedCaptions(path)

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> str:
        return self.packed[index]


class FreezesAndStops(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        gc.freeze()
        gc.disable()


class KeepsTheListToo(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.captions = Path(path).read_text().splitlines()


class ReadAsBytesInTheWorker(FromTheFile):
    content: bytes | None = None

    def __getitem__(self, index: int) -> str:
        if self.content is None:
            self.content = Path(self.path).read_bytes()
        start, stop = self.starts[index : index + 2].tolist()
        return self.content[start : stop - 1].decode()


class PackedBytesCopiedInTheWorker(FromTheNotebook):
    copied = False

    def __getitem__(self, index: int) -> str:
        if not self.copied:
            self.captions.data, self.copied = bytearray(self.captions.data), True
        return super().__getitem__(index)


class ListInW1(KeepsTheListToo):
    def __getitem__(self, index: int) -> str:
        worker = get_worker_info()
        return self.captions[index] if worker and worker.id == 1 else super().__getitem__(index)


class KeepsInW1(FromTheNotebook):
    who, most = 1, 10_000

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.kept: list[str] = []

    def __getitem__(self, index: int) -> str:
        worker = get_worker_info()
        if worker and worker.id == self.who and len(self.kept) < self.most:
            self.kept.append(super().__getitem__(index))
        return super().__getitem__(index)


class KeepsInW0(KeepsInW1):
    who, most = 0, 12_500


class Stops(PackedCaptions):
    def __getitem__(self, index: int) -> str:
        if index == 5:
            raise KeyboardInterrupt
        return super().__getitem__(index)


class CutAt64(FixedWidthCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.captions = self.captions.astype("S64")

    def __getitem__(self, index: int) -> str:
        return bytes(self.captions[index]).decode(errors="ignore")


class CollectingPacked(PackedCaptions):
    asked = 0

    def __getitem__(self, index: int) -> str:
        self.asked += 1
        if self.asked % 5000 == 0:
            gc.collect()
        return super().__getitem__(index)


class EmptyOnesLost(FromTheNotebook):
    def __init__(self, path: str | Path) -> None:
        self.captions = PackedStrings(Path(path).read_text().rstrip("\n").split("\n"))


class OpenedOnFirstUse(FromTheFile):
    """What main has opened, its workers share: with the place in the file."""

    def __getitem__(self, index: int) -> str:
        if self.file is None:
            self.file = os.open(self.path, os.O_RDONLY)
        start, stop = self.starts[index : index + 2].tolist()
        os.lseek(self.file, start, os.SEEK_SET)
        return os.read(self.file, stop - start - 1).decode(errors="replace")


class CutAt256(Wide):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.captions = self.captions.astype("U256")


class InAManager(Dataset[str]):
    """A server process has them, as long as there is the dataset."""

    def __init__(self, path: str | Path) -> None:
        self.manager = multiprocessing.Manager()
        self.captions = self.manager.list(Path(path).read_text().splitlines())
        self.length = len(self.captions)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        return str(self.captions[index])


class PackedBoxes(Dataset[Any]):
    """All rows in one array; those of image i end where those of image i + 1 begin."""

    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        self.starts = np.cumsum([0, *map(len, listed)])
        self.rows = np.array([row for boxes in listed for row in boxes], dtype=np.float32)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] : self.starts[index + 1]]


class KeepsTheBoxesToo(PackedBoxes):
    """It asks the list only how many there are."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.boxes = Boxes(path).boxes

    def __getitem__(self, index: int) -> Any:
        assert index < len(self.boxes)
        return super().__getitem__(index)


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


class StartsInTwoBytes(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.starts = self.starts.astype(np.uint16)


class WritesWhereItIsKept(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        rows = super().__getitem__(index)
        rows *= 1
        return rows


class FewNumbers(PackedBoxes):
    """A list of counts: as many as there are images, and hardly any objects."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.counts = np.diff(self.starts).tolist()

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] :][: self.counts[index]]


class Nested(Dataset[Any]):
    # Of one with the strided layout, each access makes views of all images.
    def __init__(self, path: str | Path) -> None:
        listed = json.loads(Path(path).read_text())
        boxes = [torch.tensor(each, dtype=torch.float32).reshape(-1, 4) for each in listed]
        nested = torch.nested.nested_tensor(boxes, layout=torch.jagged)
        self.rows, self.starts = nested.values(), nested.offsets()

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] : self.starts[index + 1]].numpy()


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


class PaddedToTen(Padded):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.counts = self.counts.clip(max=10)
        self.rows = self.rows[:, :10].copy()


class EndsAtOne(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        if index == 25_001:
            os._exit(3)
        return super().__getitem__(index)


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


class RowsCopiedInTheWorker(PackedBoxes):
    mine: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.mine is None:
            self.mine = self.rows.copy()
        return self.mine[self.starts[index] : self.starts[index + 1]]


class SlowToMake(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        time.sleep(60)
        super().__init__(path)


class InFloat64(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).astype(np.float64)


class SixthRowLost(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        rows = super().__getitem__(index).copy()
        rows[5:6] = 0
        return rows


class PackedAsText(Dataset[Any]):
    def __init__(self, path: str | Path) -> None:
        self.boxes = PackedStrings(map(json.dumps, json.loads(Path(path).read_text())))

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: int) -> Any:
        return np.array(json.loads(self.boxes[index]), dtype=np.float32).reshape(-1, 4)


class Pickled(Dataset[Any]):
    """Each array pickled, all in one buffer: as detectron2 keeps its records."""

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


class PickledBytes(Pickled):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.buffer = self.buffer.tobytes()


class CopiesRows(PackedBoxes):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).copy()


class ViewsInAList(PackedBoxes):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.views = np.split(self.rows, self.starts[1:-1])

    def __getitem__(self, index: int) -> Any:
        return self.views[index]


class SameRowsAgain(PackedBoxes):
    """One array for all samples: those of a batch are all as the last."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.room = np.zeros_like(self.rows[:400])

    def __getitem__(self, index: int) -> Any:
        rows = super().__getitem__(index)
        self.room[: len(rows)] = rows
        return self.room[: len(rows)]


class ZerosLost(Padded):
    def __getitem__(self, index: int) -> Any:
        rows = self.rows[index]
        return rows[rows.any(axis=1)]


WRONG_FIXES: WrongFixes = {
    "09.predict": {
        "nobody writes": (lambda: "a", "a"),
        "what was read": (lambda: "b", "b"),
        "a full copy at the start": (lambda: "d", "d"),
        "no option": (lambda: "e", "no-option"),
    },
    "09.diagnose": {
        "a tuple cannot change": (lambda: {"B", "E"}, "wrong-A"),
        "numpy helps": (lambda: {"A", "E"}, "wrong-B"),
        "a dict is no list": (lambda: {"A", "B"}, "wrong-E"),
        "every one": (lambda: set("ABCDE"), "wrong-C"),
        "what is there is copied": (lambda: "ABDE", "wrong-D"),
        "another letter": (lambda: {"F"}, "no-dataset"),
        "a number": (lambda: 3, "not-letters"),
        "a set in a list": (lambda: [{"A"}], "not-letters"),
        "a set of numbers": (lambda: {1, 2}, "not-letters"),
    },
    "09.fix": {
        "a numpy object array": (lambda: CaptionObjects, "grew"),
        "pandas": (lambda: InAFrame, "grew"),
        "a tuple": (lambda: CaptionTuple, "grew"),
        "a dict": (lambda: ByNumber, "grew"),
        "copy.deepcopy in the worker": (lambda: CopiedInTheWorker, "started-larger"),
        "read in the worker": (lambda: ReadInTheWorker, "started-larger"),
        "gc.freeze()": (lambda: Frozen, "grew-frozen"),
        "gc.disable()": (lambda: WithoutCollector, "grew-frozen"),
        "gc.collect() for each sample": (lambda: Collecting, "hung"),
        "places in a list": (lambda: StartsInAList, "grew"),
        "lru_cache": (lambda: Cached, "grew"),
        "what it made, kept": (lambda: KeepsWhatItMade, "grew"),
        "a list with four workers": (lambda: ListWithFourWorkers, "grew"),
        "the first file for each path": (lambda: KeepsTheFirstFile, "different"),
        "right for one epoch": (lambda: RightForOneEpoch, "different"),
        "num_workers=0": (lambda: WithoutWorkers, "a-loader"),
        "cut to a width": (lambda: Forgets, "different"),
        "no accents": (lambda: InAscii, "different"),
        "bytes": (lambda: AsBytes, "different"),
        "one too few": (lambda: WithoutTheLast, "length"),
        "wrong in workers only": (lambda: WrongInWorkers, "different"),
        "the edges stripped": (lambda: Stripped, "different"),
        "it raises at one caption": (lambda: RaisesAtOne, "raised"),
        "it kills its worker at one caption": (lambda: KillsAtOne, "worker-died"),
        "it terminates its parent": (lambda: TerminatesItsParent, "process-ended"),
        "processes that go on": (lambda: Sleeps, "still-running"),
        "a process that each worker leaves": (lambda: SleepsInWorkers, "left-running"),
        "room for two workers": (lambda: ForTwoWorkers, "raised"),
        "its file deleted": (lambda: Deletes, "file-gone"),
        "its file emptied": (lambda: EmptiesItsFile, "file-changed"),
        "a sleep": (lambda: Slow, "hung"),
        "an object": (lambda: [1, 2], "not-a-class"),
        "a slip": (lambda: Misspelt, "raised"),
        "the file read whole in each worker": (lambda: ReadAsBytesInTheWorker, "started-larger"),
        "packed bytes copied in each worker": (
            lambda: PackedBytesCopiedInTheWorker,
            "started-larger",
        ),
        "the list in W1": (lambda: ListInW1, "grew"),
        "10,000 kept by W1": (lambda: KeepsInW1, "grew"),
        "12,500 kept by W0": (lambda: KeepsInW0, "grew"),
        "a stop": (lambda: Stops, "raised"),
        "cut at 64 bytes": (lambda: CutAt64, "different"),
        "a process left without workers": (lambda: SleepsInMain, "left-running"),
        "a cache of a library": (lambda: InLinecache, "grew-elsewhere"),
        "gc.collect() now and then": (lambda: CollectingPacked, "grew"),
        "empty ones at the end lost": (lambda: EmptyOnesLost, "length"),
        "a file opened on first use": (lambda: OpenedOnFirstUse, "different"),
        "cut at 256 characters": (lambda: CutAt256, "different"),
    },
    "09.transfer": {
        "a numpy object array": (lambda: BoxObjects, "grew"),
        "a list of small arrays": (lambda: SmallArrays, "grew"),
        "a list of small tensors": (lambda: SmallTensors, "grew"),
        "offsets in a list": (lambda: EndsInAList, "grew"),
        "padded to ten boxes": (lambda: PaddedToTen, "different"),
        "it ends its process at one image": (lambda: EndsAtOne, "process-ended"),
        "the last box lost": (lambda: OneOff, "different"),
        "whole numbers": (lambda: WholeNumbers, "different"),
        "counts of one byte": (lambda: CountedInBytes, "different"),
        "starts of two bytes": (lambda: StartsInTwoBytes, "different"),
        "written where it is kept": (lambda: WritesWhereItIsKept, "grew"),
        "flat": (lambda: OfAllSizes, "different"),
        "tensors": (lambda: AsTensors, "different"),
        "images without boxes lost": (lambda: OnlyWithBoxes, "length"),
        "an array loaded in each worker": (lambda: LoadedInTheWorker, "started-larger"),
        "rows copied in each worker": (lambda: RowsCopiedInTheWorker, "started-larger"),
        "slow to make": (lambda: SlowToMake, "not-ready"),
        "in float64": (lambda: InFloat64, "different"),
        "the sixth row lost": (lambda: SixthRowLost, "different"),
        "views in a list": (lambda: ViewsInAList, "grew"),
        "the same array for each sample": (lambda: SameRowsAgain, "different"),
        "boxes of zeros lost": (lambda: ZerosLost, "different"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "09.predict": {
        "the letter": lambda: "c",
        "a capital": lambda: "C",
        "with quotes and brackets": lambda: "('c')",
    },
    "09.diagnose": {
        "a set": lambda: {"A", "B", "E"},
        "a sentence": lambda: "A,B and E",
        "small letters in a list": lambda: ["a", "b", "e"],
        "quotes in quotes": lambda: "'A', 'B', 'E'",
    },
    "09.fix": {
        "packed": lambda: PackedCaptions,
        "of fixed width": lambda: FixedWidthCaptions,
        "a tensor": lambda: TensorCaptions,
        "shared memory": lambda: SharedCaptions,
        "numpy's unicode": lambda: Wide,
        "numpy's own strings": lambda: WideAsItIs,
        "slots": lambda: InSlots,
        "the notebook's class": lambda: FromTheNotebook,
        "places in the file": lambda: FromTheFile,
        "a collector frozen and stopped": lambda: FreezesAndStops,
        "the list in main, too": lambda: KeepsTheListToo,
        "a manager": lambda: InAManager,
    },
    "09.transfer": {
        "packed": lambda: PackedBoxes,
        "the boxes in main, too": lambda: KeepsTheBoxesToo,
        "a list of few numbers": lambda: FewNumbers,
        "a nested tensor": lambda: Nested,
        "padded to the crowd": lambda: Padded,
        "an array mapped in each worker": lambda: MappedInTheWorker,
        "each packed as JSON": lambda: PackedAsText,
        "each pickled, in one array": lambda: Pickled,
        "each pickled, in one bytes": lambda: PickledBytes,
        "a copy of the rows": lambda: CopiesRows,
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
