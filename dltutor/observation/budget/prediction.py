"""Predict from a loader's settings how much it will hold in `/dev/shm` and in memory.

The loop holds one batch, and every worker works up to `prefetch_factor` batches ahead of the loop.
A batch that a worker has made stays in shared memory until the loop drops it. While the batch
waits, no process has mapped it, so PSS doesn't show it. But the batch takes up memory, so the
prediction counts it. In `for batch in loader`, the name `batch` still holds the previous batch when
torch returns the next one and has asked a worker for another. So `/dev/shm` needs room for one more
batch.
"""

from __future__ import annotations

import mmap
import multiprocessing
from dataclasses import dataclass

from dltutor.observation.budget.usage import SAFE, Room
from dltutor.system.this_machine import Machine
from dltutor.tables import Table, Told, count_of, size


@dataclass(frozen=True)
class Settings:
    """A loader's settings, which decide how much the loader holds.

    Args:
        num_workers: How many workers, 1 or more.
        prefetch_factor: How many batches each worker makes ahead.
        batch_size: How many samples a batch has.
        sample_bytes: The size of one sample, which is a single tensor, in bytes. The default is an
            image of 3 x 224 x 224 float32 values.
        start_method: "fork", "spawn", or "forkserver", if the system has it.

    Raises:
        ValueError: A number isn't a whole number of 1 or more, or the system has no such start
            method.
    """

    num_workers: int = 2
    prefetch_factor: int = 2
    batch_size: int = 8
    sample_bytes: int = 3 * 224 * 224 * 4
    start_method: str = "fork"

    def __post_init__(self) -> None:
        for name in ("num_workers", "prefetch_factor", "batch_size", "sample_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                none = name == "num_workers" and value == 0
                why = ". With 0 workers, nothing is prefetched" if none else ""
                raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}{why}")
        known = multiprocessing.get_all_start_methods()
        if self.start_method not in known:
            accepted = f"one of {', '.join(known)}"
            raise ValueError(f"start_method must be {accepted}, got {self.start_method!r}")

    @property
    def batch_bytes(self) -> int:
        """The size of a batch in shared memory, in bytes, rounded up to whole pages."""
        pages = -(-self.batch_size * self.sample_bytes // mmap.PAGESIZE)
        return pages * mmap.PAGESIZE

    @property
    def waiting(self) -> int:
        """How many batches the workers are ahead of the loop when the queues are full."""
        return self.prefetch_factor * self.num_workers

    @property
    def shared(self) -> int:
        """How many bytes `/dev/shm` holds when the queues are full and the loop holds a batch."""
        return (self.waiting + 1) * self.batch_bytes

    @property
    def peak_shared(self) -> int:
        """How many bytes `/dev/shm` holds while the loop still has a batch and gets the next."""
        return self.shared + self.batch_bytes


@dataclass(frozen=True)
class Footprint:
    """The memory of a loader's processes, apart from batches, for a Prediction. Sizes are in bytes.

    Args:
        start_method: The workers' start method.
        main: The main process's memory, with Python and torch, before the loader starts.
        once: The memory of processes that start once, with the first worker, such as a fork server.
        worker: The memory that each worker adds.
    """

    start_method: str
    main: int
    once: int
    worker: int


@dataclass(frozen=True, repr=False)
class Prediction(Told):
    """A prediction of a loader's memory, next to the machine's limits. Sizes are in bytes.

    The prediction assumes one tensor for each sample, and torch's collate function, and leaves out
    the memory that the C library keeps after samples are freed. That memory may be as large as
    another batch or two for each worker, and `malloc_trim` would give it back.

    Args:
        settings: The loader's settings.
        footprint: The memory of the loader's processes, measured for the same start method.
        machine: The machine whose limits apply.
    """

    settings: Settings
    footprint: Footprint
    machine: Machine

    @property
    def memory_limit(self) -> int:
        """The machine's memory or the cgroup's limit, whichever is lower."""
        limits = self.machine.memory, self.machine.memory_limit
        return min((each for each in limits if each), default=0)

    @property
    def samples(self) -> int:
        """The private memory for samples while every worker makes a batch."""
        return self.settings.num_workers * self.settings.batch_bytes

    @property
    def processes(self) -> int:
        """The memory of all processes, without shared memory."""
        started = self.footprint.once + self.settings.num_workers * self.footprint.worker
        return self.footprint.main + started + self.samples

    @property
    def total(self) -> int:
        """The memory of all processes and the batches in shared memory."""
        return self.processes + self.settings.shared

    def refusal(self, room: Room) -> str:
        """Return why this loader shouldn't run with this much room, or "" if it may run."""
        need, free = self.settings.peak_shared, room.shm
        what = f"put {size(need)} into /dev/shm, where {size(free)} are free"
        if need <= SAFE * free:
            need, free = self.total, room.memory
            what = f"take up {size(need)} of memory, where {size(free)} are available"
        if need <= SAFE * free:
            return ""
        return (
            f"It would {what}. Up to {size(SAFE * free)} (three quarters of that) is safe. Use "
            "fewer workers, a lower prefetch factor, or smaller batches."
        )

    def story(self) -> Table:
        one, this = self.settings, self.footprint
        workers = f"{count_of(one.num_workers, 'worker')} of {size(this.worker)}"
        rows = [
            ("batch", f"{count_of(one.batch_size, 'sample')}, {size(one.batch_bytes)}"),
            (
                "shared memory",
                f"{size(one.shared)}: {one.waiting + 1} batches, {one.waiting} ahead "
                f"and 1 in the loop; {size(one.peak_shared)} for a moment, while the loop takes "
                f"the next one; {_limit('/dev/shm', self.machine.shm)}",
            ),
            (
                "memory",
                f"{size(self.total)}: main {size(this.main)}, {workers}, "
                + (f"shared by all {size(this.once)}, " if this.once else "")
                + f"samples of unfinished batches {size(self.samples)}, "
                f"batches {size(one.shared)}; {_limit('memory', self.memory_limit)}",
            ),
        ]
        return Table(f"Budget of a loader, workers by {one.start_method}", tuple(rows))


def _limit(name: str, limit: int | None) -> str:
    return f"there is no {name} here" if limit is None else f"{name} has {size(limit)}"
