"""The dataset reads every sample into one buffer, so samples change after it has yielded them.

Symptom: with workers, and with automatic batching off (batch_size=None), the same sample comes
again and again, or a sample holds the data of the next one. With `num_workers=0`, every sample is
right.

NOTE [ When A Sample Is Finished ]

A worker doesn't send a tensor when you yield it. The worker puts the tensor in a queue, and one of
its threads pickles the tensor some time later. Pickling moves the tensor's memory, in place, to
shared memory, so from then on the worker's buffer and what the main process receives are the same
bytes. Meanwhile, the worker reads the next sample into these bytes. A worker that writes through a
pointer from before (`file.readinto(frame.numpy())`) may write into memory that's already freed.
Once in a few dozen runs, that ended the worker with SIGABRT: "free(): corrupted unsorted chunks".
Pickling copies a numpy buffer, so with numpy only the race with the thread is left, and a few in
hundreds of samples are wrong.

With `batch_size=8`, the worker builds the batch with `torch.stack`, which copies. But the worker
first reads all eight samples, so a batch holds the last sample eight times, with workers and
without.

Fix: yield a copy, `buffer.clone()`, or read each sample into new memory. The same goes for a
buffer that `__getitem__` keeps in `self`.

Seen in: measured here. We found no public report.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.data.records import LENGTH, PAUSE, SIZE, open_slowly, shared_records
from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load


class Frames(IterableDataset[torch.Tensor]):
    """A stream of raw frames, read into a buffer that each worker allocates once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        frame = torch.empty(SIZE // 4, dtype=torch.int32)
        with open_slowly(self.path) as file:
            for number in range(first, LENGTH, step):
                file.seek(number * SIZE)
                frame.copy_(torch.frombuffer(bytearray(file.read(SIZE)), dtype=torch.int32))
                yield frame


class ClonedFrames(Frames):
    """A stream of raw frames, each in its own memory."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for frame in super().__iter__():
            yield frame.clone()


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the frames that hold wrong numbers at the end of their step."""
    wrong = 0
    for number, frame in enumerate(loader):
        time.sleep(2 * PAUSE)  # a training step, in which the workers read their next frames
        wrong += bool((frame != number).any())
    return Finding(wrong, f"of {LENGTH} samples wrong")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset yields the same buffer for every sample."""
    return Case(load(Frames(shared_records()), workers, start_method, batch_size=None), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset yields a copy of its buffer for every sample."""
    return Case(load(ClonedFrames(shared_records()), workers, start_method, batch_size=None), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH // 8))
