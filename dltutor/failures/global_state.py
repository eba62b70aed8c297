"""What a worker counts stays in the worker, so the main process's counter is still 0.

Symptom: a global variable changed in __getitem__ stays 0. With `num_workers=0` the same code counts
correctly, so a test of the dataset alone finds nothing.

Mechanism: a worker is a process with its own copy of every module, every global variable, and the
dataset. `replaced += 1` in W0 changes W0's copy. There's no race and no error. With two workers,
there are three counters, one for each process, and you print the one that no process changed.
Attributes of the dataset (`self.replaced += 1`) behave the same way. Fresh workers start over in
each epoch, so nothing adds up in the workers either.

Fix: send the fact with the sample, as one more field of what `__getitem__` returns, and add it up
in the loop. If that doesn't work for you, count in shared memory. A shared tensor with one slot for
each worker needs no lock, because each worker writes only to its own slot. The tensor has to be
large enough for all workers. A `multiprocessing.Value` is one number for all processes. The Value
has to come from the start method's own context. Take the Value's lock for each count, because
`+= 1` reads and then writes, so counts get lost without the lock.

Seen in: pytorch#97326 (about the other direction, from main to the workers: see `stale_epoch`).
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, MISSING = 64, 8

replaced = 0


class Readings(Dataset[torch.Tensor]):
    """A dataset of sensor readings that replaces missing ones with the mean, and counts them."""

    def __init__(self) -> None:
        self.values = torch.arange(float(LENGTH))
        self.values[:: LENGTH // MISSING] = torch.nan
        self.mean = self.values.nanmean()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.values[index].isnan():
            self.count()
            return self.mean
        return self.values[index]

    def count(self) -> None:
        global replaced
        replaced += 1


class ReadingsWithSlots(Readings):
    """A dataset of readings that counts missing ones in a tensor with a slot for each worker."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.replaced = torch.zeros(max(workers, 1), dtype=torch.int64)
        self.replaced.share_memory_()

    def count(self) -> None:
        worker = get_worker_info()
        self.replaced[worker.id if worker else 0] += 1


class ReadingsWithValue(Readings):
    """A dataset of readings that counts missing ones in a `multiprocessing.Value`, under a lock."""

    def __init__(self, start_method: str) -> None:
        super().__init__()
        self.replaced: Any = multiprocessing.get_context(start_method).Value("q", 0)

    def count(self) -> None:
        with self.replaced.get_lock():
            self.replaced.value += 1


def report(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and compare main's copy of the global counter with the expected count."""
    global replaced
    replaced = 0
    for _ in loader:
        pass
    return _finding(replaced)


def report_slots(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, add up the slots, and compare the sum with the expected count."""
    dataset: Any = loader.dataset
    dataset.replaced.zero_()
    for _ in loader:
        pass
    return _finding(int(dataset.replaced.sum()))


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that counts missing readings in a global variable."""
    return Case(load(Readings(), workers, start_method, batch_size=8), report)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that counts missing readings in a shared tensor, with a slot per worker."""
    return Case(load(ReadingsWithSlots(workers), workers, start_method, batch_size=8), report_slots)


def _finding(counted: int) -> Finding:
    return Finding(abs(MISSING - counted), f"of {MISSING} replaced readings not counted")


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(MISSING))
