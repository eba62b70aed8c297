"""What the recorder tells its listeners: the observed processes at one moment."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Reading:
    """One process, or all that share a role, at one moment. Sizes in bytes, None: not known.

    Args:
        rss: Resident memory, shared pages counted in full.
        faults: Minor page faults since the process started.
        threads: Its threads.
        fds: Its open descriptors.
        uss: Private memory, if it was read at this moment.
        pss: Resident memory, each shared page divided by those that share it, if it was read.
        pss_shm: The part of PSS in shared memory, if it was read.
        private: `uss`, or its estimate.
        memory: `pss` (`uss` where there is no PSS), or its estimate.
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
        """Both together; what is known of one only counts."""
        names = [field.name for field in fields(self)]
        pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        return Reading(*(b if a is None else a if b is None else a + b for a, b in pairs))


@dataclass(frozen=True, slots=True)
class Moment:
    """The observed processes at one moment. Sizes in bytes.

    Args:
        seconds: Since the recorder was started.
        batches: Delivered so far.
        processes: By role: main, W0, ..., and other for those without a name.
        shm: In use in `/dev/shm`, or None where there is none.
        available: What the machine can still give, or None where not known.
        cgroup: Charged to the cgroup, page cache included, or None without one.
        gone: The roles of processes that ended since the last moment.
        kind: What `memory` is made of so far: PSS, or USS where there is no PSS; empty before
            the first of them was read.
        settled: The moments before this one whose estimates it has improved: the seconds of each,
            and `memory` by role.
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
