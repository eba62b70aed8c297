"""One process's part of a Timeline, how its curves grow, and the limits that it lived under."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.estimates import Known

Floats = NDArray[np.float64]

# What is kept of each process; `moments.Reading` has the same names.
Field = Literal["rss", "uss", "pss", "pss_shm", "faults", "fds", "threads"]
FIELDS: Final[tuple[Field, ...]] = get_args(Field)
_MOST_POINTS: Final = 400  # of a curve; every pair of them is looked at
_ESTIMATED_FROM: Final[tuple[Field, ...]] = ("rss", "faults", "uss", "pss")  # as in Known


@dataclass(frozen=True)
class Bounds:
    """What bounds the memory, in bytes; None where there is no such limit.

    Args:
        machine: The machine's memory.
        cgroup: The limit of the cgroup, as a container has one.
        shm: The size of `/dev/shm`.
    """

    machine: int | None = None
    cgroup: int | None = None
    shm: int | None = None

    @property
    def memory(self) -> int | None:
        """The lower of the machine's memory and the cgroup's limit."""
        return min((m for m in (self.machine, self.cgroup) if m is not None), default=None)


@dataclass(frozen=True, eq=False)
class ProcessCurves:
    """One process, from the sample that first saw it to the last.

    Args:
        role: "main", "W0", ..., or "other" for a process without a name.
        first: The index of its first sample in the timeline.
        values: One array for each of FIELDS, NaN where it was not sampled.
        ended: Seconds at which it was found gone; None if it was still there at the end.
        died: How it died, such as "killed by SIGKILL"; empty if it was not seen to die.
    """

    role: str
    first: int
    values: dict[Field, Floats]
    ended: float | None = None
    died: str = ""

    @property
    def rows(self) -> slice:
        """Where it lived in the timeline's arrays."""
        return slice(self.first, self.first + len(self.values["rss"]))

    def known(self) -> list[Known]:
        """What an estimate of its memory needs, in each of its samples."""
        columns = [self.values[name].tolist() for name in _ESTIMATED_FROM]
        return [Known(*row) for row in zip(*columns, strict=True)]

    def was_read(self, field: Field) -> bool:
        """Whether a field has any value."""
        return not bool(np.isnan(self.values[field]).all())


def slopes(along: Floats, values: Floats) -> Floats:
    """The slopes between all pairs of points; their median is Theil and Sen's estimate."""
    step = max(1, math.ceil(len(along) / _MOST_POINTS))
    one, other = np.triu_indices(len(along[::step]), k=1)
    run = along[::step][other] - along[::step][one]
    rise = values[::step][other] - values[::step][one]
    return np.asarray(rise[run > 0] / run[run > 0])


def steady(batches: NDArray[np.int64], seconds: Floats) -> NDArray[np.bool_]:
    """Which samples of a process lie in the steady part of its life.

    It begins at the first batch that arrives in its life or, where no batch is counted, after a
    quarter of it, at most one second.

    Args:
        batches: Delivered by each of its samples.
        seconds: When each was taken.
    """
    if batches.size and batches[-1] > batches[0]:
        return np.asarray(batches > batches[0])
    start_up = min(1.0, 0.25 * float(np.ptp(seconds))) if seconds.size else 0.0
    return np.asarray(seconds >= seconds[:1] + start_up)
