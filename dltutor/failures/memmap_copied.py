"""The dataset holds a `np.memmap`, and each worker that isn't forked gets a copy of the whole file.

Symptom: np.memmap uses as much memory as the file in every worker, though it should use next to
none, and the first batch takes longer to arrive, the larger the file is. It happens on macOS and
Windows, and on Linux from Python 3.14, where forkserver is the default.

Mechanism: a `np.memmap` is an array whose memory is a file. Processes that map the same file share
its pages, so a mapped file costs next to nothing, however many workers read it. A forked worker
inherits the mapping. But main sends the dataset to any other worker as a pickle, and numpy pickles
a `np.memmap` like an ordinary array, with its content and without its path. So main reads the whole
file, once for each worker, and each worker keeps what it gets in memory of its own. Nothing says
so: the worker's `np.memmap` isn't mapped to any file, but works like one that is.

Fix: keep the path, and map the file in each process that uses it, on first use. Leave the array
out of the pickle (`__getstate__`). To see what a worker gets, look at `len(pickle.dumps(dataset))`.

Seen in: numpy#2049, VisCy#417 (2026, asks for the size of the pickle), NeMo Automodel#3382.
"""

from __future__ import annotations

import multiprocessing
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import (
    Case,
    Counts,
    Failure,
    Finding,
    PerProcess,
    facts_of,
    load,
    own_folder,
)
from dltutor.failures.tools.gauge import no_proc

WINDOWS, WIDTH = 16, 64
TOKENS: Final = 40 * 2**20  # which take up 80 MB
FILE: Final = "tokens.bin"


class Corpus(Dataset[torch.Tensor]):
    """A dataset of windows of a long text, whose tokens are in a file."""

    def __init__(self, path: Path) -> None:
        self.tokens = open_tokens(path)

    def __len__(self) -> int:
        return WINDOWS

    def __getitem__(self, index: int) -> torch.Tensor:
        first = index * (TOKENS // WINDOWS)
        return torch.from_numpy(self.tokens[first : first + WIDTH].astype(np.int64))


class MappedCorpus(Corpus):
    """A dataset of the same windows. Each process maps the file for itself."""

    def __init__(self, path: Path) -> None:
        self.file = PerProcess(partial(open_tokens, path))

    @property
    def tokens(self) -> Any:
        """This process's array, which maps the file."""
        return self.file.get()


def open_tokens(path: Path) -> Any:
    """Map a file of tokens for reading, and return the tokens as an array of `uint16`."""
    return np.memmap(path, np.uint16, mode="r")


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run an epoch, and count the workers that read the tokens without mapping the file."""
    others, copies = set(multiprocessing.active_children()), 0
    for number, _ in enumerate(loader, start=1):
        if number == loader.num_workers:  # each worker has delivered its first batch
            workers = set(multiprocessing.active_children()) - others
            copies = sum(not _maps_the_file(worker.pid) for worker in workers)
    return Finding(copies, f"of {loader.num_workers} workers have their own copy of the file")


def _maps_the_file(pid: int | None) -> bool:
    return any(Path(each.path).name == FILE for each in psutil.Process(pid).memory_maps())


@cache
def tokens_file() -> Path:
    """Write a file of tokens, once per process, and return its path."""
    path = own_folder() / FILE
    with path.open("wb") as file:
        file.truncate(2 * TOKENS)  # a hole, which takes up no disk space
    tokens = np.memmap(path, np.uint16, mode="r+")
    tokens[:: TOKENS // WINDOWS] = range(WINDOWS)
    return path


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset maps the file in main."""
    return Case(load(Corpus(tokens_file()), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset maps the file in each process that uses it."""
    return Case(load(MappedCorpus(tokens_file()), workers, start_method), train)


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Counts(2),
    start_methods=("spawn", "forkserver"),
    absent=no_proc,
)
