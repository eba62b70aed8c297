"""Make a file of records, and read it slowly enough for two processes to disturb each other."""

from __future__ import annotations

import io
import os
import tarfile
import time
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.failures.tools import Finding, own_folder

Kind = Literal["file", "zip", "tar"]

LENGTH: Final = 64  # how many records the cases read, which is half of the file
SIZE: Final = 16_384  # bytes in a record, more than a file object's buffer before Python 3.14
PAUSE: Final = 0.004  # seconds that the slow disk takes for a read


class SlowDisk(io.RawIOBase):
    """A file on a disk that takes 4 ms for each read, like a busy network share.

    Between seek and read, another process has time to move the read position. So in every run,
    workers lose a race that they'd rarely lose on a fast disk.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self._descriptor

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, offset, whence)

    def readinto(self, buffer: Any) -> int:
        time.sleep(PAUSE)
        return os.readv(self._descriptor, [buffer])

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def open_slowly(path: Path) -> io.BufferedReader:
    """Open a file for reading, like `open(path, "rb")` on a slow disk."""
    return io.BufferedReader(SlowDisk(path))


@cache
def shared_records(kind: Kind = "file") -> Path:
    """Write the records to one file or archive, once per process and kind, and return its path."""
    path = own_folder() / f"records.{kind}"
    records = [np.full(SIZE // 4, number, dtype="<i4").tobytes() for number in range(2 * LENGTH)]
    if kind == "file":
        path.write_bytes(b"".join(records))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for number, record in enumerate(records):
                archive.writestr(str(number), record)
    elif kind == "tar":
        with tarfile.open(path, "w") as tar:
            for number, record in enumerate(records):
                member = tarfile.TarInfo(str(number))
                member.size = SIZE
                tar.addfile(member, io.BytesIO(record))
    else:
        raise ValueError(f"kind must be file, zip, or tar, got {kind!r}")
    return path


def decode(record: bytes) -> torch.Tensor:
    """Return the numbers in a record. In an intact record, they all equal the record's number."""
    return torch.from_numpy(np.frombuffer(record, dtype="<i4").copy())


def count_wrong(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the samples that are wrong or missing.

    In a correct sample, every number equals the sample's index.
    """
    wrong = seen = 0
    for batch in loader:
        wanted = torch.arange(seen, seen + len(batch))
        wrong += int((batch != wanted[:, None]).any(dim=1).sum())
        seen += len(batch)
    return Finding(wrong + LENGTH - seen, f"of {LENGTH} samples wrong")
