"""Four jobs whose memory grows, under the letters A to D: lesson 10 asks which is which.

Each is a failure mode of the catalogue under another name, run for a short time: ten epochs of
sixteen steps, with a short training step. All four have the same loader, but for three things in
D. Its workers are forked from a server that has done nothing yet (`forkserver`), since workers
forked from a busy main first use up the memory that main has freed, and may show nothing. They fill
the holes that imports have left in their heap, as a longer run would: where Python had to compile
modules first, having no cached bytecode, 5 of 15 runs grew by about half as much without it, and
none of 31 with it (glibc 2.36). And it has one sample in a batch: with four it grows once for each
batch.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing import forkserver
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import growing_cache, heap_growth, kept_batches, reference_cycle
from dltutor.failures.kit.contract import Case
from dltutor.failures.material.readings import shared_recordings
from dltutor.lessons.lesson_10.runs import EPOCHS, READ_EVERY, STEP, train

STEPS: Final = 16  # in an epoch
FEW: Final = 8
_RECORDED: Final = 64  # files
_LENGTH: Final = 200_000  # numbers in each
_IN_A_BATCH: Final = {"A": 4, "B": 4, "C": 4, "D": 1}
_SAMPLES_TO_A_READING: Final = 4
_PIECES: Final = (65536, 8192, 1024, 256, 64, 24)  # bytes; larger ones may get own mappings
_MOST_HOLES: Final = 16 * 2**20  # bytes; with another allocator in its place the heap stays


class JobA(growing_cache.CachedRecordings):
    """The loudness of each recording."""


class JobB(kept_batches.Images):
    """Images of noise in ten classes."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples


class JobC(reference_cycle.Recordings):
    """How loud the channels of each recording are."""


class JobD(heap_growth.Recordings):
    """Recordings, cut into overlapping frames, each of the same loudness."""

    step = 112  # a sample is of 1.8 MB


class Collecting(Dataset[Any]):
    """The article's fix: the samples of another dataset, and `gc.collect()` before each."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # ours have a length

    def __getitem__(self, index: int) -> Any:
        gc.collect()
        return self.dataset[index]


def fill_holes(worker_id: int) -> None:
    """A `worker_init_fn`: takes what is free in the heap, where the heap is the one that grows."""
    if heap_growth.reuses_memory():
        return
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    libc.sbrk.argtypes, libc.sbrk.restype = (ctypes.c_ssize_t,), ctypes.c_void_p
    for size in _PIECES:
        end = libc.sbrk(0)
        for _ in range(_MOST_HOLES // size):
            if libc.malloc(size) is None or libc.sbrk(0) != end:
                break  # it did not fit any more: the heap has grown


def make_job(
    letter: str,
    *,
    fixed: bool = False,
    few: bool = False,
    collect: bool = False,
    samples: int | None = None,
    batch_size: int | None = None,
    epochs: int = EPOCHS,
    step: float = STEP,
) -> Case:
    """One of the four jobs, ready to run.

    Args:
        letter: "A", "B", "C" or "D".
        fixed: The same job without its fault.
        few: Always the same eight samples, and as many steps.
        collect: With `gc.collect()` before each sample, as the article has it.
        samples: How many in an epoch; None for sixteen steps.
        batch_size: None for four, and one in D.
        epochs: How many epochs of sixteen steps.
        step: Seconds that a training step takes.

    Returns:
        The job. It reads the memory after every fourth step; after every fourth sample where
        `samples` are given, and with `few`, whose shape is not looked at, half as often.
    """
    make, keep = _JOBS[letter][fixed]
    batch_size = batch_size or _IN_A_BATCH[letter]
    number = FEW if few else samples or STEPS * batch_size
    dataset = make(number)
    in_worker = heap_growth.return_freed_memory if fixed else fill_holes
    loader: DataLoader[Any] = DataLoader(
        Collecting(dataset) if collect else dataset,
        batch_size=batch_size,
        shuffle=True,
        generator=torch.Generator().manual_seed(0),
        num_workers=2,
        multiprocessing_context=_clean_server() if letter == "D" else "fork",
        persistent_workers=True,
        worker_init_fn=in_worker if letter == "D" else None,
    )
    rounds = epochs * STEPS * batch_size // FEW if few else epochs
    every = 2 * READ_EVERY if few else READ_EVERY
    if samples:
        every = max(1, _SAMPLES_TO_A_READING // batch_size)
    return Case(loader, lambda each: train(each, keep=keep, epochs=rounds, step=step, every=every))


def _clean_server() -> str:
    # It imports torch once, for all workers to come, and ends with this process.
    multiprocessing.set_forkserver_preload([__name__])
    forkserver.ensure_running()
    return "forkserver"


def _paths(count: int) -> tuple[str, ...]:
    return shared_recordings(_RECORDED, _LENGTH)[:count]


def _views(batch: Any) -> object:
    images, labels = batch
    images.mean()  # the training looks at all of it
    return images[0], labels[0]


def _copies(batch: Any) -> object:
    images, labels = batch
    images.mean()
    return images[0].clone(), labels[0].item()


_Made = tuple[Callable[[int], Dataset[Any]], Callable[[Any], object] | None]

_JOBS: Final[dict[str, tuple[_Made, _Made]]] = {
    "A": (
        (lambda n: JobA(_paths(n)), None),
        (lambda n: growing_cache.BoundedRecordings(_paths(n)), None),
    ),
    "B": ((JobB, _views), (JobB, _copies)),
    "C": (
        (lambda n: JobC(_paths(n)), None),
        (lambda n: reference_cycle.RecordingsWithoutCycles(_paths(n)), None),
    ),
    "D": ((lambda n: JobD(_paths(n)), None), (lambda n: JobD(_paths(n)), None)),
}
