"""The dataset holds an object that belongs to one process, and main can't send it to a worker.

Symptom: `TypeError: cannot pickle '_io.BufferedReader' object`, or `'_thread.lock'`, `'generator'`,
`'sqlite3.Connection'`. A lambda causes `AttributeError: Can't pickle local object`. Main raises the
error before the first batch, where the loop asks for its iterator. Recent torch adds a warning:
`Got pickle error when attempting to start a worker Process`. On Windows, the worker starts first,
and its own error appears below main's: `EOFError: Ran out of input`.

Python changes the wording from time to time. From 3.12 on, an open file is `cannot pickle
'BufferedReader' instances`. For a lambda, 3.13 has `Can't get local object`, and 3.14 raises
`PicklingError: Can't pickle local object`. From 3.14 on, notes below the error name the attribute:
`when serializing dict item 'handle'`. The last note names only the process that should have
started.

Mechanism: under fork, a worker is a copy of main, and whatever the dataset holds is there, so
nothing is pickled and nothing complains. Under spawn and forkserver, a worker is a new interpreter.
The dataset travels to the worker as a pickle, and anything that means something only inside one
process (an open file, a lock, a generator, a connection) can't be pickled. So the same script works
on Linux up to Python 3.13 and fails on macOS, on Windows, and on Linux from Python 3.14, where
forkserver is the default.

Fix: keep what says how to get the handle (a path, a query, a named function instead of a lambda),
and open the handle in each process that uses it. Drop the handle in `__getstate__`, so that main
can also pickle a dataset that it has already used. Keep the process id next to the handle, so that
a forked worker also opens its own (see `lazy_but_touched`).

Seen in: pytorch#51836, pytorch#22131, pytorch#22585, torchgeo-bench#273.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder

RECORDS: Final = 16
SIZE: Final = 8  # bytes in a record


class Records(Dataset[torch.Tensor]):
    """Records of a file, each read at its own position."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handle = self.open()

    def open(self) -> Any:
        return (self.folder / "records.bin").open("rb")

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> torch.Tensor:
        return to_tensor(os.pread(self.handle.fileno(), SIZE, index * SIZE))

    def __del__(self) -> None:
        close(self.handle)


class OwnRecords(Records):
    """A dataset of records. Each process opens the file for itself and never pickles it."""

    opened: tuple[int, Any] | None = None  # the opening process's pid, and the file

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def handle(self) -> Any:
        """This process's open file."""
        if self.opened is None or self.opened[0] != os.getpid():
            self.opened = (os.getpid(), self.open())
        return self.opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "opened"}

    def __del__(self) -> None:
        if self.opened is not None:
            close(self.opened[1])


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset opens the file in main, and keeps it open."""
    return Case(load(Records(records_folder()), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset opens the file in each process that uses it."""
    return Case(load(OwnRecords(records_folder()), workers, start_method))


def to_tensor(record: bytes) -> torch.Tensor:
    """Return the bytes of a record as a tensor."""
    return torch.tensor(list(record))


def close(handle: Any) -> None:
    """Close a handle if it has a `close` method."""
    if hasattr(handle, "close"):
        handle.close()


@cache
def records_folder() -> Path:
    """Write `records.bin` to a new folder, once per process, and return the folder."""
    folder = own_folder()
    records = [bytes(range(number, number + SIZE)) for number in range(RECORDS)]
    (folder / "records.bin").write_bytes(b"".join(records))
    return folder


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says(
        "raised",
        (
            "TypeError: cannot pickle '_io.BufferedReader' object",
            "TypeError: cannot pickle 'BufferedReader' instances",  # the wording since Python 3.12
        ),
    ),
    start_methods=("spawn", "forkserver"),
)
