"""What a loader will hold in `/dev/shm` and in memory, from its settings: the prefetch budget.

The loop holds one batch, and every worker is `prefetch_factor` batches ahead of it. A batch that a
worker has made lies in shared memory until the loop lets go of it. While it waits no process has
it mapped, so PSS does not show it: it is memory all the same, and here it is counted. In
`for batch in loader`, the name `batch` still holds the last one when torch hands over the next and
has asked a worker for another: `/dev/shm` needs room for one batch more.
"""

from __future__ import annotations

import mmap
import multiprocessing
from dataclasses import dataclass

from dltutor.observation.budget.usage import Room
from dltutor.system.this_machine import Machine
from dltutor.tables import Table, size


@dataclass(frozen=True)
class Settings:
    """The settings of a loader that decide how much it holds.

    Args:
        num_workers: 1 or more.
        prefetch_factor: Batches that each worker makes ahead.
        batch_size: Samples in a batch.
        sample_bytes: The size of one sample, a single tensor, in bytes. By default it is an image
            of 3 x 224 x 224 float32.
        start_method: fork, spawn or forkserver, as far as the system has them.

    Raises:
        ValueError: One of them is out of its range.
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
                why = ": with 0 workers nothing is prefetched" if none else ""
                raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}{why}")
        known = multiprocessing.get_all_start_methods()
        if self.start_method not in known:
            accepted = f"one of {', '.join(known)}"
            raise ValueError(f"start_method must be {accepted}, got {self.start_method!r}")

    @property
    def batch_bytes(self) -> int:
        """One batch in shared memory, in bytes: whole pages."""
        pages = -(-self.batch_size * self.sample_bytes // mmap.PAGESIZE)
        return pages * mmap.PAGESIZE

    @property
    def waiting(self) -> int:
        """Batches that are made, or being made, when the queues are full."""
        return self.prefetch_factor * self.num_workers

    @property
    def shared(self) -> int:
        """Bytes in `/dev/shm` when the queues are full and the loop holds a batch."""
        return (self.waiting + 1) * self.batch_bytes

    @property
    def peak_shared(self) -> int:
        """Bytes in `/dev/shm` for a moment: the loop gets a batch before it lets go of the last."""
        return self.shared + self.batch_bytes


@dataclass(frozen=True)
class Footprint:
    """What the processes of a loader take up without any batch, in bytes: PSS, as measured.

    Args:
        start_method: How the workers start.
        main: The main process before the loader starts: Python and torch.
        once: What starts once with the first worker, such as the fork server.
        worker: What each worker adds.
    """

    start_method: str
    main: int
    once: int
    worker: int


@dataclass(frozen=True)
class Prediction:
    """What a loader will take up at most, against the machine's limits. Sizes are in bytes.

    It counts one tensor for each sample, and the collate function of torch. Memory that the C
    library keeps after samples are freed is not in it: it may be another batch or two for each
    worker, which `malloc_trim` would give back.

    Args:
        settings: Of the loader.
        footprint: Of its processes, measured for the same start method.
        machine: Whose limits count.
    """

    settings: Settings
    footprint: Footprint
    machine: Machine

    @property
    def memory_limit(self) -> int:
        """The memory of the machine or, if lower, the limit of its cgroup."""
        return min(self.machine.memory, self.machine.memory_limit or self.machine.memory)

    @property
    def samples(self) -> int:
        """Private: each worker has the samples of the batch that it makes, beside the batch."""
        return self.settings.num_workers * self.settings.batch_bytes

    @property
    def processes(self) -> int:
        """All processes, without what is in shared memory."""
        started = self.footprint.once + self.settings.num_workers * self.footprint.worker
        return self.footprint.main + started + self.samples

    @property
    def total(self) -> int:
        """All processes and the batches in shared memory."""
        return self.processes + self.settings.shared

    def refusal(self, room: Room) -> str:
        """Say why it should not be run, or nothing.

        Args:
            room: What is free now.
        """
        if (
            self.machine.shm is not None
            and room.shm is not None
            and self.settings.peak_shared > room.safe_shm
        ):
            need, free, safe = self.settings.peak_shared, room.shm, room.safe_shm
            what = f"put {size(need)} into /dev/shm, where {size(free)} are free"
        elif self.total > room.safe_memory:
            what = f"take up {size(self.total)} of memory, where {size(room.memory)} are available"
            safe = room.safe_memory
        else:
            return ""
        return (
            f"It would {what}. Up to {size(safe)} (three quarters of that) is safe. Take fewer "
            "workers, a lower prefetch factor, or smaller batches."
        )

    def story(self) -> Table:
        """The prediction in a few rows."""
        one, this = self.settings, self.footprint
        workers = f"{_number(one.num_workers, 'worker')} of {size(this.worker)}"
        rows = [
            ("batch", f"{_number(one.batch_size, 'sample')}, {size(one.batch_bytes)}"),
            (
                "shared memory",
                f"{size(one.shared)}: {one.waiting + 1} batches, {one.waiting} ahead "
                f"and 1 in the loop; for a moment {size(one.peak_shared)}, when the loop gets its "
                f"next; {_limit('/dev/shm', self.machine.shm)}",
            ),
            (
                "memory",
                f"{size(self.total)}: main {size(this.main)}, {workers}, "
                + (f"what they share {size(this.once)}, " if this.once else "")
                + f"samples of unfinished batches {size(self.samples)}, "
                f"batches {size(one.shared)}; {_limit('memory', self.memory_limit)}",
            ),
        ]
        return Table(f"Budget of a loader, workers by {one.start_method}", tuple(rows))

    def __str__(self) -> str:
        return str(self.story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _limit(name: str, limit: int | None) -> str:
    return f"there is no {name} here" if limit is None else f"{name} has {size(limit)}"
