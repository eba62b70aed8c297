"""What a loader will hold in `/dev/shm` and in memory, from its settings: the prefetch budget.

The loop holds one batch, and every worker is `prefetch_factor` batches ahead of it. A batch that a
worker has made lies in shared memory until the loop lets go of it. While it waits no process has
it mapped, so PSS does not show it: it is memory all the same, and here it is counted. In
`for batch in loader`, the name `batch` still holds the last one when torch hands over the next and
has asked a worker for another: `/dev/shm` needs room for one batch more.
"""

from __future__ import annotations

from dataclasses import dataclass

from dltutor.observation.budget.room import Room
from dltutor.observation.budget.settings import Settings
from dltutor.system.this_machine import Machine
from dltutor.tables import Table, size


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
    """What a loader will take up at most. Sizes are in bytes.

    Args:
        settings: Of the loader.
        footprint: Of its processes, measured.
        shm_limit: The size of `/dev/shm`; None where there is none.
        memory_limit: The memory of the machine or, if lower, the limit of its cgroup.
    """

    settings: Settings
    footprint: Footprint
    shm_limit: int | None
    memory_limit: int

    @property
    def shared(self) -> int:
        """In `/dev/shm`: (prefetch_factor x workers + 1) batches."""
        return self.settings.shared

    @property
    def peak_shared(self) -> int:
        """What `/dev/shm` needs room for: one batch more, for a moment."""
        return self.settings.peak_shared

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
        return self.processes + self.shared

    def refusal(self, room: Room) -> str:
        """Say why it should not be run, or nothing.

        Args:
            room: What is free now.
        """
        if self.shm_limit is not None and room.shm is not None and self.peak_shared > room.safe_shm:
            need, free, safe = self.peak_shared, room.shm, room.safe_shm
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
                f"{size(self.shared)}: {one.waiting + 1} batches, {one.waiting} ahead "
                f"and 1 in the loop; for a moment {size(self.peak_shared)}, when the loop gets its "
                f"next; {_limit('/dev/shm', self.shm_limit)}",
            ),
            (
                "memory",
                f"{size(self.total)}: main {size(this.main)}, {workers}, "
                + (f"what they share {size(this.once)}, " if this.once else "")
                + f"samples of unfinished batches {size(self.samples)}, "
                f"batches {size(self.shared)}; {_limit('memory', self.memory_limit)}",
            ),
        ]
        return Table(f"Budget of a loader, workers by {one.start_method}", tuple(rows))

    def __str__(self) -> str:
        return str(self.story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()


def predict(
    machine: Machine,
    footprint: Footprint,
    *,
    num_workers: int,
    prefetch_factor: int,
    batch_size: int,
    sample_bytes: int,
) -> Prediction:
    """Predict what a loader will hold when its queues are full, against the machine's limits.

    It counts one tensor for each sample, and the collate function of torch. Memory that the C
    library keeps after samples are freed is not in it: it may be another batch or two for each
    worker, which `malloc_trim` would give back.

    Args:
        machine: Whose limits count.
        footprint: What the processes take up, as `footprint(start_method)` measures it. It
            tells the start method, too.
        num_workers: 1 or more.
        prefetch_factor: Batches that each worker makes ahead; torch's default is 2.
        batch_size: Samples in a batch.
        sample_bytes: The size of one sample in bytes.

    Returns:
        The Prediction.

    Raises:
        ValueError: A setting is out of its range.
    """
    settings = Settings(
        num_workers, prefetch_factor, batch_size, sample_bytes, footprint.start_method
    )
    memory = min(machine.memory, machine.memory_limit or machine.memory)
    return Prediction(settings, footprint, machine.shm, memory)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _limit(name: str, limit: int | None) -> str:
    return f"there is no {name} here" if limit is None else f"{name} has {size(limit)}"
