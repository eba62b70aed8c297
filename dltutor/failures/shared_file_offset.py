"""Two workers read one open file, and each gets data that the other asked for.

Symptom: wrong samples, silently, with more than one worker. With one worker or none, all samples
are right. An intact zip archive raises `zipfile.BadZipFile: Bad magic number for file header`, `Bad
CRC-32 for file`, or `File name in directory ... and header ... differ`.

NOTE [ One Position For All ]

A file that was opened before a fork is one open file of the operating system, which keeps one read
position for it. Each worker has its own Python file object with its own descriptor, but they all
lead to this one position. W0 seeks to its record, W1 seeks to another before W0 reads, and then W0
reads there. The lock inside `zipfile` doesn't help, because fork also copies the lock, so each
process has its own.

A zip archive has checksums, so it notices. A tar archive and a plain file don't, so the sample is
whatever was at that position.

Small files hide this race, because what fits into the buffer of the file object (8 KB, or 128 KB
since Python 3.14) needs no second read. A fast disk nearly hides the race: of thousands of records,
a few are wrong. In this case, the disk takes 4 ms for a read, like a busy disk, so that every run
loses the race.

Only `fork` hands the open file on. `spawn` and `forkserver` refuse at the start: `TypeError:
cannot pickle '_io.BufferedReader' object`, from Python 3.12 on `'BufferedReader' instances`.

Fix: open the file in the process that reads it, in `__getitem__` or `worker_init_fn`, not in
`__init__` (and see `lazy_but_touched`). This costs one descriptor for each worker, and each worker
reads an archive's table of contents once. For a plain file, you can use `os.pread` instead, which
takes the position as an argument, so one descriptor serves all workers. Under `spawn`, you still
have to open the file again.

Seen in: mxnet#10628, VisCy#417 (a zip store, 2026), pytorch#1919 and pytorch#11887 (with the HDF5
of that time).
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from dltutor.failures.data.records import (
    LENGTH,
    SIZE,
    Kind,
    count_wrong,
    decode,
    open_slowly,
    shared_records,
)
from dltutor.failures.tools import Case, Counts, Failure, PerProcess, facts_of, load


class PlainFile:
    """A reader for records of the same size, one after the other in a plain file."""

    def __init__(self, path: Path) -> None:
        self.file = open_slowly(path)

    def read(self, number: int) -> bytes:
        self.file.seek(number * SIZE)
        return self.file.read(SIZE)


class Zip:
    """A reader for records in a zip archive."""

    def __init__(self, path: Path) -> None:
        self.zip = zipfile.ZipFile(open_slowly(path))

    def read(self, number: int) -> bytes:
        return self.zip.read(str(number))


class Tar:
    """A reader for records in a tar archive."""

    def __init__(self, path: Path) -> None:
        self.tar = tarfile.TarFile(fileobj=open_slowly(path))
        self.members = self.tar.getmembers()

    def read(self, number: int) -> bytes:
        member = self.tar.extractfile(self.members[number])
        assert member is not None
        return member.read()


ARCHIVES: dict[Kind, Any] = {"file": PlainFile, "zip": Zip, "tar": Tar}


class Records(Dataset[torch.Tensor]):
    """A dataset of records in a file that stays open."""

    def __init__(self, kind: Kind, path: Path) -> None:
        self.archive = ARCHIVES[kind](path)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return decode(self.archive.read(index))


class OwnRecords(Records):
    """A dataset of records in a file that each process opens for itself."""

    def __init__(self, kind: Kind, path: Path) -> None:
        self.opened = PerProcess(partial(ARCHIVES[kind], path))

    def __getitem__(self, index: int) -> torch.Tensor:
        return decode(self.opened.get().read(index))


class PositionedRecords(Records):
    """A dataset of records that forked workers read from one open file, without `seek`."""

    def __init__(self, path: Path) -> None:
        self.file = open_slowly(path)

    def __getitem__(self, index: int) -> torch.Tensor:
        return decode(os.pread(self.file.fileno(), SIZE, index * SIZE))


def broken(*, workers: int = 2, start_method: str = "fork", kind: Kind = "file") -> Case:
    """Build a case that opens the file once, for all workers."""
    return Case(load(Records(kind, shared_records(kind)), workers, start_method), count_wrong)


def fixed(
    *, workers: int = 2, start_method: str = "fork", kind: Kind = "file", positioned: bool = False
) -> Case:
    """Build a case that opens the file in each process.

    If `positioned`, main opens the file once, and forked workers read it with `os.pread`. This only
    works if `kind` is "file".
    """
    path = shared_records(kind)
    dataset = PositionedRecords(path) if positioned else OwnRecords(kind, path)
    return Case(load(dataset, workers, start_method), count_wrong)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Counts(LENGTH // 16),
    start_methods=("fork",),
)
