"""Define datasets that keep captions as objects or bytes, for `copy_on_read` and lesson 09."""

from __future__ import annotations

import os
import struct
import weakref
from collections.abc import Sequence
from functools import cache
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import own_folder


@cache
def shared_captions(count: int = 300_000) -> Path:
    """Write `count` captions to a file, once per process and count, and return the file's path."""
    path = own_folder() / "captions.txt"
    lines = (f"{n:06}.jpg shows {n * 7919 % count} birds above a lake\n" for n in range(count))
    path.write_text("".join(lines))
    return path


class Captions(Dataset[str]):
    """A dataset that reads captions from a file, one on each line, and keeps them in a list."""

    def __init__(self, path: str | Path) -> None:
        self.captions = Path(path).read_text().splitlines()

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class OtherCaptions(Captions):
    """A base class for datasets that keep captions in something other than a list of strings."""

    captions: Any


class CaptionTuple(OtherCaptions):
    """A dataset that keeps captions in a tuple."""

    def __init__(self, path: str | Path) -> None:
        self.captions = tuple(Path(path).read_text().splitlines())


class CaptionDicts(OtherCaptions):
    """A dataset that keeps captions in a list of dicts."""

    def __init__(self, path: str | Path) -> None:
        lines = Path(path).read_text().splitlines()
        self.captions = [{"number": n, "caption": line} for n, line in enumerate(lines)]

    def __getitem__(self, index: int) -> str:
        return str(self.captions[index]["caption"])


class CaptionObjects(OtherCaptions):
    """A dataset that keeps captions in a numpy array of dtype `object`."""

    def __init__(self, path: str | Path) -> None:
        self.captions = np.array(Path(path).read_text().splitlines(), dtype=object)


class CaptionFrame(OtherCaptions):
    """A dataset that keeps captions in a column of a pandas table."""

    def __init__(self, path: str | Path) -> None:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]  # untyped or absent

        lines = Path(path).read_text().splitlines()
        self.captions = pd.DataFrame({"caption": lines}, dtype=object)

    def __getitem__(self, index: int) -> str:
        return str(self.captions["caption"].iat[index])


class PackedCaptions(Dataset[str]):
    """A dataset of captions in one array of bytes. Caption i ends where caption i + 1 begins."""

    def __init__(self, path: str | Path) -> None:
        self.text, self.offsets = pack(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> str:
        start, stop = self.offsets[index : index + 2]
        return self.text[start:stop].tobytes().decode()


class CaptionLengths(Captions):
    """A dataset whose samples are the captions' lengths. It keeps the captions for a report."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.lengths = np.array([len(caption) for caption in self.captions])

    def __getitem__(self, index: int) -> int:  # type: ignore[override]  # Captions returns a string
        return int(self.lengths[index])


class FixedWidthCaptions(OtherCaptions):
    """A dataset that keeps captions in a numpy array of bytes, all as wide as the longest."""

    def __init__(self, path: str | Path) -> None:
        lines = Path(path).read_text().splitlines()
        self.captions = np.array([line.encode() for line in lines], dtype="S")

    def __getitem__(self, index: int) -> str:
        return bytes(self.captions[index]).decode()


class TensorCaptions(PackedCaptions):
    """A dataset that keeps packed captions in tensors, which even spawned workers share."""

    text: Any
    offsets: Any

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.text = torch.from_numpy(self.text)
        self.offsets = torch.from_numpy(self.offsets)

    def __getitem__(self, index: int) -> str:
        start, stop = self.offsets[index : index + 2].tolist()
        return bytes(self.text[start:stop].numpy()).decode()


class SharedCaptions(Dataset[str]):
    """A dataset of packed captions in a named block of shared memory, which workers attach to.

    The process that made the block unlinks it when the dataset is freed or the process exits. If
    that process is killed, Python's resource tracker unlinks the block. An unrelated process must
    attach with `track=False` (Python 3.13), or the process's own tracker unlinks the block at exit.
    """

    def __init__(self, path: str | Path) -> None:
        text, offsets = pack(Path(path).read_text().splitlines())
        self.length = len(offsets) - 1
        content = offsets.tobytes() + text.tobytes()
        self.text_at = offsets.nbytes
        self.memory = SharedMemory(create=True, size=len(content))
        self._buffer()[: len(content)] = content
        self.close = weakref.finalize(self, close_memory, self.memory, unlinked_by=os.getpid())

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> str:
        # Keep nothing that points into the buffer, because close() would then raise an error.
        start, stop = struct.unpack_from("qq", self._buffer(), 8 * index)
        return bytes(self._buffer()[self.text_at + start : self.text_at + stop]).decode()

    def _buffer(self) -> memoryview:
        if self.memory.buf is None:
            raise ValueError("these captions are closed")
        return self.memory.buf

    def __getstate__(self) -> dict[str, Any]:
        # Send a spawned worker the block's name, not the bytes.
        return {"name": self.memory.name, "length": self.length, "text_at": self.text_at}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.length, self.text_at = state["length"], state["text_at"]
        self.memory = SharedMemory(state["name"])
        self.close = weakref.finalize(self, close_memory, self.memory, unlinked_by=None)


def close_memory(memory: SharedMemory, unlinked_by: int | None) -> None:
    """Detach from shared memory, and unlink it if this process has the pid `unlinked_by`."""
    memory.close()
    if os.getpid() == unlinked_by:  # false in a forked worker, which inherits this finalizer
        memory.unlink()


def pack(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Pack strings into one array of bytes.

    Returns:
        The bytes of all strings, and `len(texts) + 1` offsets: where each string begins, and where
        the last one ends.
    """
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(bytearray().join(encoded), dtype=np.uint8), offsets


LISTED = {
    "list": Captions,
    "tuple": CaptionTuple,
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
