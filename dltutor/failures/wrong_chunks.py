"""A file's chunks hold samples that aren't drawn together, so each sample decompresses a chunk.

Symptom: a 16 kB sample reads 4 MB, and each epoch reads the file many times over. The workers
spend their time in `zlib`, `blosc`, or `zstd`, and GPUs wait for data. It's fast only if you draw
the samples in the order of the file, and keep the last chunk.

Mechanism: HDF5, Zarr, and Parquet compress a file in parts: chunks, or row groups. Large chunks
compress better and are fast to write, so a file that's written sample by sample often has hundreds
or thousands of samples in each chunk. But nothing can read a part of a compressed chunk. To get one
sample, the library reads and decompresses a whole chunk, takes one row, and drops the rest. A cache
helps only if the next sample is in the same chunk, and it almost never is if the loader shuffles.
Each worker has its own cache, too. HDF5 doesn't even keep a chunk that's larger than its cache,
which is 1 MB by default before HDF5 2.0.

It's the same if a chunk cuts across the samples: a chunk for each hour, in a file with a sample for
each sensor, makes every sample read every chunk.

Fix: store what you draw together in one chunk. If you draw samples one by one in random order,
that's a single sample, as in `create_dataset(..., chunks=(1, width))` for h5py. If you can't write
the file again, shuffle the chunks, and draw all samples of a chunk before the next one. Or read the
whole array once, if it fits into memory. To see how much a process reads, compare `rchar` in
`/proc/PID/io` before and after an epoch.

Seen in: OpenMHC#16 (2026: 1,000 samples to a chunk of 109 MB), returnn#1777, h5py#977.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load, own_folder

LENGTH, WIDTH = 96, 4_096  # a sample is 16 kB
TOGETHER = 48  # samples in a chunk of the broken case's file


class Spectra(Dataset[torch.Tensor]):
    """A dataset of spectra from a file of compressed chunks.

    Args:
        path: The file.
        rows: How many spectra are in each chunk.
        starts: Where each chunk starts in the file, and where the last one ends.
    """

    def __init__(self, path: Path, rows: int, starts: list[int]) -> None:
        self.path = path
        self.rows = rows
        self.starts = starts

    def __len__(self) -> int:
        return (len(self.starts) - 1) * self.rows

    def __getitem__(self, index: int) -> torch.Tensor:
        chunk, row = divmod(index, self.rows)
        return torch.from_numpy(self.read(chunk)[row].copy())

    def read(self, chunk: int) -> Any:
        """Read a chunk, and return its spectra as the rows of an array."""
        start, end = self.starts[chunk : chunk + 2]
        with self.path.open("rb") as file:
            file.seek(start)
            packed = file.read(end - start)
        return np.frombuffer(zlib.decompress(packed), np.float32).reshape(self.rows, WIDTH)


@cache
def store(rows: int) -> Spectra:
    """Write the file, once per process and chunk size, and return a dataset that reads it.

    Args:
        rows: How many spectra to compress together.
    """
    path = own_folder() / f"chunks_of_{rows}"
    spectra = np.random.default_rng(0).standard_normal((LENGTH, WIDTH), np.float32)
    chunks = [
        zlib.compress(spectra[first : first + rows].tobytes(), 1)
        for first in range(0, LENGTH, rows)
    ]
    path.write_bytes(b"".join(chunks))
    return Spectra(path, rows, [0, *itertools.accumulate(map(len, chunks))])


def count_reads(loader: DataLoader[Any]) -> Finding:
    """Run two epochs, and return how much the second one reads, as a multiple of the file's size.

    The first epoch doesn't count, because a worker that's starting may read all of torch.
    """
    others = set(multiprocessing.active_children())
    for _ in loader:
        pass
    workers = set(multiprocessing.active_children()) - others
    pids = [each.pid or 0 for each in workers] or [os.getpid()]
    before = _read(pids)
    for _ in loader:
        pass
    dataset: Any = loader.dataset
    times = round((_read(pids) - before) / dataset.starts[-1])
    return Finding(times, "times the file was read in an epoch")


def _read(pids: list[int]) -> int:
    return sum(psutil.Process(pid).io_counters().read_chars for pid in pids)


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose file has many samples in each chunk."""
    return _case(TOGETHER, workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose file has one sample in each chunk."""
    return _case(1, workers, start_method)


def _case(rows: int, workers: int, start_method: str) -> Case:
    order: dict[str, Any] = {"shuffle": True, "generator": torch.Generator().manual_seed(0)}
    loader = load(store(rows), workers, start_method, persistent_workers=True, **order)
    return Case(loader, count_reads)


def no_counter() -> str | None:
    """Return why this machine can't count what processes read, or None if it can."""
    return None if Path("/proc/self/io").is_file() else "this machine has no /proc/PID/io"


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(10), absent=no_counter
)
