"""`/dev/shm` is too small for the batches on their way to main, and runs out of space.

Symptom: `RuntimeError: unable to allocate shared memory(shm) for file </torch_...>: No space left
on device (28)`, even with a terabyte free on every disk. Before torch 2.10: `Unexpected bus
error encountered in worker. This might be caused by insufficient shared memory (shm)`, and
`killed by signal: Bus error`. With your own collate function, the loop may hang without an error.

NOTE [ Where Batches Travel ]

A tensor doesn't go from worker to main through a pipe. The tensor's bytes are in shared memory, a
file in `/dev/shm` that both sides map, and the worker sends only a descriptor. `/dev/shm` is a file
system in memory with its own size: half the machine's memory on most machines, 64 MB in a Docker
container. `/dev/shm` has to hold `num_workers * prefetch_factor` batches, the batch that your loop
holds, and, for a moment, the next one.

`default_collate` in a worker builds the batch in shared memory from the start. If this step fails,
it fails in the thread that runs your code, so the exception arrives in main like any other. A
collate function of your own (`list`, `torch.stack`) builds the batch in ordinary memory, and the
thread that feeds the queue moves the batch to shared memory later. When that fails, the traceback
goes to the worker's stderr, the batch is lost, and main waits for it forever.

Until 2.9, torch made the file without reserving its pages. The first write into a page that wasn't
available ended the worker with SIGBUS, the "bus error". Since 2.10, torch reserves the pages
(`posix_fallocate`, pytorch#161910), so you get an error instead.

Fix: in a container, make `/dev/shm` larger (`docker run --shm-size=8g`, or `--ipc=host`). The
loader needs the bytes of a batch times `num_workers * prefetch_factor + 2`. Send bytes as bytes and
let the loop turn them into floats, which are four times as large. Lower `prefetch_factor` before
`batch_size`. A collate function that returns numpy arrays needs no shared memory at all, but Python
pickles the arrays and copies them through a pipe. For large batches, that's several times slower.

Seen in: pytorch#5040, pytorch#2244, pytorch#16979, pytorch#108861; pytorch#176069 (the reason
given in the new message may be wrong).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder

SIDE = 512
LENGTH = 48


class Slices(Dataset[torch.Tensor]):
    """The slices of a scan, one file with all of them, as numbers between 0 and 1."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        gray = np.load(self.path, mmap_mode="r")[index]
        return torch.from_numpy(np.array(gray)).float() / 255


class ByteSlices(Slices):
    """A dataset of a scan's slices as they are in the file, with one byte per pixel."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.array(np.load(self.path, mmap_mode="r")[index]))


def as_arrays(samples: list[torch.Tensor]) -> np.ndarray[Any, Any]:
    """Stack the samples into a numpy array, which doesn't go through `/dev/shm`."""
    return np.stack([sample.numpy() for sample in samples])


def normalize(loader: DataLoader[Any]) -> None:
    """Run a training loop that turns the bytes from `ByteSlices` into floats."""
    for batch in loader:
        torch.as_tensor(batch).float().div_(255)


COLLATE: dict[str, Callable[[list[torch.Tensor]], Any]] = {
    "default": default_collate,
    "list": list,
    "numpy": as_arrays,
}


@cache
def shared_scan() -> Path:
    """Write a scan, once per process, and return its path."""
    path = own_folder() / "scan.npy"
    random = np.random.default_rng(0)
    np.save(path, random.integers(0, 256, (LENGTH, SIDE, SIDE), dtype=np.uint8))
    return path


def broken(*, workers: int = 2, start_method: str = "fork", collate: str = "default") -> Case:
    """Build a case that loads three batches of 16 MB. Two workers prefetch all three.

    In a `/dev/shm` of 24 MB, main raises an error if `collate` is "default", and the loop hangs if
    it's "list". With "numpy", the batches need no shared memory.
    """
    options = {"batch_size": 16, "collate_fn": COLLATE[collate], "prefetch_factor": 2}
    return Case(load(Slices(shared_scan()), workers, start_method, **options))


def fixed(*, workers: int = 2, start_method: str = "fork", collate: str = "default") -> Case:
    """Build a case that loads the slices as bytes. Each worker prefetches one batch of 4 MB."""
    options = {"batch_size": 16, "collate_fn": COLLATE[collate], "prefetch_factor": 1}
    return Case(load(ByteSlices(shared_scan()), workers, start_method, **options), normalize)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("unable to allocate shared memory(shm) for file",)),
    limits={"shm": "24M"},
    deadline=10,
)
