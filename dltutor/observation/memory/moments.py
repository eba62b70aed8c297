"""Define the Moment, which a Recorder passes to its listeners, and the Reading, a part of it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of one process, or of all processes with one role, at one moment.

    Sizes are in bytes. None means that the helper process didn't or couldn't read the figure.

    Args:
        rss: Resident memory, with shared pages counted in full.
        faults: Minor page faults since the process started.
        threads: The number of threads.
        fds: The number of open descriptors.
        uss: Private memory, if it was read at this moment.
        pss: Resident memory, with each shared page divided by the number of processes that share
            it, if it was read at this moment.
        pss_shm: The part of PSS in shared memory, if it was read at this moment.
        private: `uss` or its estimate.
        memory: `pss` (or `uss` if there is no PSS) or its estimate.
    """

    rss: int | None = None
    faults: int | None = None
    threads: int | None = None
    fds: int | None = None
    uss: int | None = None
    pss: int | None = None
    pss_shm: int | None = None
    private: int | None = None
    memory: int | None = None

    def __add__(self, other: Reading) -> Reading:
        """Return the sum of two Readings. If only one of them has a value, use that value."""
        names = [field.name for field in fields(self)]
        pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        return Reading(*(b if a is None else a if b is None else a + b for a, b in pairs))


@dataclass(frozen=True, slots=True)
class Moment:
    """A sample of the observed processes and the machine at one moment. Sizes are in bytes.

    Args:
        seconds: Seconds since the recorder was started.
        batches: How many batches were delivered so far.
        processes: The Reading for each role: main, W0, ..., or other for processes without a name.
        shm: How much of `/dev/shm` is in use, or None if there is no `/dev/shm`.
        available: How much memory the machine can still give, or None if unknown.
        cgroup: How much memory is charged to the cgroup, with page cache, or None without a cgroup.
        gone: The roles of processes that ended since the last moment.
        kind: The kind of each Reading's `memory`: "PSS", "USS" if there is no PSS, or "" before the
            first reading.
        settled: The earlier moments whose estimates this moment corrects, each as its seconds and
            the new `memory` by role.
    """

    seconds: float
    batches: int
    processes: dict[str, Reading]
    shm: int | None
    available: int | None
    cgroup: int | None
    gone: tuple[str, ...]
    kind: str = ""
    settled: tuple[tuple[float, dict[str, int]], ...] = ()
