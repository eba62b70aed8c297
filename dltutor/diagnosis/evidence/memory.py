"""Memory, shared memory and descriptors: what a run takes, keeps and leaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """What became of the memory of forked workers, measured in them between two batches, in MB.

    The figures of the worker that had most; -1 for a run that was not made. "peak" is what a worker
    took on top of what it had before its first sample, "late" what it took after a third of its
    samples. The runs are compared after the same number of samples.

    Args:
        copied: Pages of main that were copied; -1 where no worker could be measured.
        copied_frozen: The same with main's objects hidden from the garbage collector.
        copied_in_loop: `copied`, with the training loop.
        collections: Full collections in one worker.
        collected_at: The line that made the last of them.
        read: Large containers of Python objects: [path, class, length, and the share of its
            elements' pages that a worker had copied before its first sample, and at the end].
        samples: How many samples the worker had made where the runs are compared.
        late_samples: How many of them came after a third.
        peak_as_it_is: Growth with nothing changed.
        peak_collected: With a collection after each batch.
        peak_returned: With large blocks returned to the system.
        peak_repeated: With the same samples again and again.
        late_as_it_is: The same, after a third of the samples.
        late_collected: The same, after a third of the samples.
        late_returned: The same, after a third of the samples.
        late_repeated: The same, after a third of the samples.
        later_epochs: Growth in later epochs with nothing changed, in workers that stay; -1 if none
            were seen.
        grown: Containers that grew with new samples: [path, class, elements for each sample,
            bound: None for none, 0 for one that was not known until it was full].
    """

    copied: float = -1.0
    copied_frozen: float = -1.0
    copied_in_loop: float = -1.0
    collections: int = 0
    collected_at: str = ""
    read: tuple[tuple[str, str, int, float, float], ...] = ()
    samples: int = 0
    late_samples: int = 1
    peak_as_it_is: float = -1.0
    peak_collected: float = -1.0
    peak_returned: float = -1.0
    peak_repeated: float = -1.0
    late_as_it_is: float = -1.0
    late_collected: float = -1.0
    late_returned: float = -1.0
    late_repeated: float = -1.0
    later_epochs: float = -1.0
    grown: tuple[tuple[str, str, float, int | None], ...] = ()


@dataclass(frozen=True)
class Views:
    """The same batches kept twice: as they come, and as copies of what they show.

    Args:
        batches: How many were kept.
        as_they_come: MB of shared memory that they take.
        as_copies: The same, where each tensor had been copied before it was sent.
    """

    batches: int
    as_they_come: float
    as_copies: float


@dataclass(frozen=True)
class Ahead:
    """What is loaded ahead of a loop that stops after its first batch, and whether it helps.

    Args:
        held: MB of shared memory with the prefetch that was chosen.
        held_by_two: The same with two batches for each worker.
        seconds: Seconds for a batch, with the prefetch that was chosen.
        seconds_by_two: The same with two.
        steady: Seconds for a batch in a loop that rests as long as a batch takes.
        steady_by_two: The same with two.
    """

    held: float
    held_by_two: float
    seconds: float
    seconds_by_two: float
    steady: float
    steady_by_two: float


@dataclass(frozen=True)
class Limits:
    """A run that ran out of shared memory or of descriptors, with fewer of them needed.

    Args:
        room: MB that /dev/shm has in all.
        files: How many descriptors a process may have.
        lighter: How a run of one worker ends that loads one batch ahead; "" if it was not made.
        lighter_batches: How many batches came.
        batch_bytes: The bytes of the largest of them.
        arrays: How a run ends whose tensors are sent as arrays, without shared memory.
        arrays_batches: How many batches came.
        nothing_kept: How a run ends whose loop keeps nothing.
        nothing_kept_batches: How many batches came.
        more: How many descriptors a process may have in the next run.
        with_more: How that run ends, with the training loop.
        with_more_batches: How many batches came.
    """

    room: float
    files: int
    lighter: str = ""
    lighter_batches: int = 0
    batch_bytes: int = 0
    arrays: str = ""
    arrays_batches: int = 0
    nothing_kept: str = ""
    nothing_kept_batches: int = 0
    more: int = 0
    with_more: str = ""
    with_more_batches: int = 0


@dataclass(frozen=True)
class Segments:
    """What a run leaves in /dev/shm when all its processes are killed at once.

    Args:
        batches: How many batches it held.
        left: How many segments were left; they have been removed.
        in_workers: The sharing strategy of the workers.
        in_main: That of main.
    """

    batches: int
    left: int
    in_workers: str
    in_main: str
