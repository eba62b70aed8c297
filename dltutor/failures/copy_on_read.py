"""A list of file names, only ever read, is copied page by page into every worker.

Symptom: memory grows during the first epoch, in every worker, until each has as much as main; then
`DataLoader worker (pid N) is killed by signal: Killed`. The dataset is a long list, of names,
dicts or tuples; nobody writes to it. `htop` shows the full size for each worker from the start,
since it counts shared pages (RES); only the private part (USS) grows.

NOTE [ Reading Is Writing ]

A forked worker shares the pages of main until one of them writes. Each Python object begins with a
count of the references to it, and whoever reads the object raises and lowers this count. That is
a write: the kernel copies the page. A page of 4096 bytes holds about fifty short strings, so in
shuffled order the first few per cent of the samples copy nearly all pages.

The container makes no difference, the objects do: a numpy array of dtype `object` and a pandas
column of Python strings grow like the list. Under spawn and forkserver nothing is shared in the
first place: the list is pickled, and each worker has its private copy before the first sample. A
torch tensor is not copied even there.

Remedy: data without Python objects. All texts joined in one array of bytes, with an array of
offsets (`packed`), takes the least; numpy's fixed-width `S` is simplest where all are of similar
length (`fixed_width`); a torch tensor is shared under every start method (`tensor`); Arrow does the
same for tables. `multiprocessing.shared_memory` shares under every start method too, but you must
end its life yourself (`shared_memory`). `gc.freeze()` does not help.

Seen in: pytorch#13246, pytorch#20433, dlio_benchmark#165, referit3d#5.
"""

from __future__ import annotations

import os
import struct
import weakref
from collections.abc import Sequence
from functools import cache
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.contract import Case, Failure
from dltutor.failures.folders import own_folder
from dltutor.failures.gauge import Gauge
from dltutor.failures.loaders import load
from dltutor.failures.sign import Costs, Finding

ListedAs = Literal["list", "dicts", "object_array", "pandas"]
StoredAs = Literal["packed", "fixed_width", "tensor", "shared_memory"]


class Captions(Dataset[str]):
    """The captions of a file, one on each line."""

    def __init__(self, path: str | Path) -> None:
        self.captions = Path(path).read_text().splitlines()

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class CaptionDicts(Dataset[str]):
    """The captions as records."""

    def __init__(self, path: str | Path) -> None:
        lines = Path(path).read_text().splitlines()
        self.records = [{"number": n, "caption": line} for n, line in enumerate(lines)]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> str:
        return str(self.records[index]["caption"])


class CaptionObjects(Dataset[str]):
    """The captions in a numpy array, of objects."""

    def __init__(self, path: str | Path) -> None:
        self.captions = np.array(Path(path).read_text().splitlines(), dtype=object)

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return str(self.captions[index])


class CaptionFrame(Dataset[str]):
    """The captions in a column of a pandas table."""

    def __init__(self, path: str | Path) -> None:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        self.table = pd.DataFrame({"caption": Path(path).read_text().splitlines()}, dtype=object)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> str:
        return str(self.table["caption"].iat[index])


class PackedCaptions(Dataset[str]):
    """The captions as one array of bytes; caption i ends where caption i + 1 begins."""

    def __init__(self, path: str | Path) -> None:
        self.text, self.offsets = pack(Path(path).read_bytes().splitlines())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> str:
        start, stop = self.offsets[index : index + 2]
        return self.text[start:stop].tobytes().decode()


class FixedWidthCaptions(Dataset[str]):
    """The captions in a numpy array of bytes, all as wide as the longest."""

    def __init__(self, path: str | Path) -> None:
        self.captions = np.array(Path(path).read_bytes().splitlines(), dtype="S")

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return bytes(self.captions[index]).decode()


class TensorCaptions(Dataset[str]):
    """The captions packed, in tensors: spawned workers share them as well."""

    def __init__(self, path: str | Path) -> None:
        text, offsets = pack(Path(path).read_bytes().splitlines())
        self.text = torch.from_numpy(text)
        self.offsets = torch.from_numpy(offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> str:
        start, stop = self.offsets[index : index + 2].tolist()
        return self.text[start:stop].numpy().tobytes().decode()


class SharedCaptions(Dataset[str]):
    """The captions packed, in shared memory with a name: created here, attached by the workers.

    The process that made it unlinks it when the dataset goes, or at its own end.
    """

    def __init__(self, path: str | Path) -> None:
        text, offsets = pack(Path(path).read_bytes().splitlines())
        self.length = len(offsets) - 1
        content = offsets.tobytes() + text.tobytes()
        self.text_at = offsets.nbytes
        self.memory = SharedMemory(create=True, size=len(content))
        self._buffer()[: len(content)] = content
        self.close = weakref.finalize(self, _close, self.memory, unlinked_by=os.getpid())

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        # Nothing that points into the buffer is kept: as long as it is, close() raises.
        start, stop = struct.unpack_from("qq", self._buffer(), 8 * index)
        return bytes(self._buffer()[self.text_at + start : self.text_at + stop]).decode()

    def _buffer(self) -> memoryview:
        if self.memory.buf is None:
            raise ValueError("these captions are closed")
        return self.memory.buf

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker gets the name, not the bytes.
        return {"name": self.memory.name, "length": self.length, "text_at": self.text_at}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.length, self.text_at = state["length"], state["text_at"]
        self.memory = SharedMemory(state["name"])
        self.close = weakref.finalize(self, _close, self.memory, unlinked_by=None)


def _close(memory: SharedMemory, unlinked_by: int | None) -> None:
    memory.close()
    if os.getpid() == unlinked_by:  # not in a forked worker, which inherits this call
        memory.unlink()


def pack(lines: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Join lines.

    Returns:
        All their bytes, and where each begins, with the end of the last one: `len(lines) + 1`.
    """
    offsets = np.zeros(len(lines) + 1, dtype=np.int64)
    np.cumsum([len(line) for line in lines], out=offsets[1:])
    return np.frombuffer(bytearray().join(lines), dtype=np.uint8), offsets


LISTED = {
    "list": Captions,
    "dicts": CaptionDicts,
    "object_array": CaptionObjects,
    "pandas": CaptionFrame,
}
STORED = {
    "packed": PackedCaptions,
    "fixed_width": FixedWidthCaptions,
    "tensor": TensorCaptions,
    "shared_memory": SharedCaptions,
}


def read_all(loader: DataLoader[str]) -> Finding:
    """One epoch.

    Returns:
        The MB private to each worker when all has been read.
    """
    gauge = Gauge()
    private = 0.0
    for step, _batch in enumerate(loader, start=1):
        if step == len(loader):
            private = gauge.private()
    return Finding(private, "MB private to each worker")


def broken(*, workers: int = 2, start_method: str = "fork", kind: ListedAs = "list") -> Case:
    """Keep the captions as Python objects."""
    return Case(_loader(LISTED[kind](shared_captions()), workers, start_method), read_all)


def fixed(*, workers: int = 2, start_method: str = "fork", kind: StoredAs = "packed") -> Case:
    """Keep the captions as bytes."""
    return Case(_loader(STORED[kind](shared_captions()), workers, start_method), read_all)


@cache
def shared_captions(count: int = 300_000) -> Path:
    """A file of captions that the cases of this process share; removed at its end."""
    folder = own_folder()
    path = folder / "captions.txt"
    lines = (f"{n:06}.jpg shows {n * 7919 % count} birds above a lake\n" for n in range(count))
    path.write_text("".join(lines))
    return path


def _loader(dataset: Dataset[str], workers: int, start_method: str) -> DataLoader[str]:
    return load(
        dataset,
        workers,
        start_method,
        batch_size=1000,
        shuffle=True,
        generator=torch.Generator().manual_seed(0),
    )


FAILURE = Failure(
    name="copy_on_read",
    lesson="09",
    symptom="memory grows during the first epoch, in every worker / DataLoader worker (pid N) is "
    "killed by signal: Killed",
    cause="Reading a Python object writes its reference count, and a forked worker gets its own "
    "copy of every page that is written to.",
    remedy="Keep names and records without Python objects: packed bytes with offsets, a "
    "fixed-width array, a tensor, Arrow.",
    broken=broken,
    fixed=fixed,
    sign=Costs(2.5),
    start_methods=("fork",),
)
