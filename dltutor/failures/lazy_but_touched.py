"""The dataset opens its file in `__getitem__`, but main does that first, so workers share the file.

Symptom: wrong samples, silently, although the file is opened in __getitem__.

Mechanism: "open it on first use" means that every worker opens its own file, as long as the first
use is in a worker. `dataset[0]` in the main process opens the file there. Your code may do that to
print a shape, draw a sample, or measure a mean, and the dataset's own `__init__` may do it as well.
The workers find `self.file` set, don't open their own, and read at one shared position (see
`shared_file_offset`). Remove the line that prints the shape, and the samples are right. Under
`spawn` and `forkserver`, the same line ends the loader at the start: `TypeError: cannot pickle
'_io.BufferedReader' object`, from Python 3.12 on `'BufferedReader' instances`.

Fix: remember which process opened the file, and open it again in any other process. Leave the
file out of the pickle. When a worker closes its copy of the descriptor, the main process's own
stays open. (Don't close an inherited database connection, because that ends main's session.)

Seen in: VisCy#417 (its `__init__` reads the windows), h5py in stable-worldmodel#194.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from dltutor.failures.data.records import (
    LENGTH,
    SIZE,
    count_wrong,
    decode,
    open_slowly,
    shared_records,
)
from dltutor.failures.tools import Case, Counts, Failure, facts_of, load


class LazyRecords(Dataset[torch.Tensor]):
    """A dataset of records that opens its file when a process asks for the first sample."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: io.BufferedReader | None = None

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.file is None:
            self.file = open_slowly(self.path)
        self.file.seek(index * SIZE)
        return decode(self.file.read(SIZE))


class OwnRecords(LazyRecords):
    """A dataset of records. Each process opens the file itself when it reads its first sample."""

    opened_by: int | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.file is not None and self.opened_by != os.getpid():
            self.file.close()
            self.file = None
        self.opened_by = os.getpid()
        return super().__getitem__(index)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "file": None}


def broken(*, workers: int = 2, start_method: str = "fork", touched: bool = True) -> Case:
    """Build a case that opens the file on first use. If `touched`, main uses the dataset first."""
    return _case(LazyRecords(shared_records()), workers, start_method, touched)


def fixed(*, workers: int = 2, start_method: str = "fork", touched: bool = True) -> Case:
    """Build a case that opens the file in each process, even if main has opened it (`touched`)."""
    return _case(OwnRecords(shared_records()), workers, start_method, touched)


def _case(dataset: LazyRecords, workers: int, start_method: str, touched: bool) -> Case:
    if touched:
        assert dataset[0].shape == (SIZE // 4,)
    return Case(load(dataset, workers, start_method), count_wrong)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Counts(LENGTH // 16),
    start_methods=("fork",),
)
