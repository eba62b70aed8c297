"""Define one process's curves in a Timeline, and the limits on memory, and measure growth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.estimates import Known

Floats = NDArray[np.float64]

# The values that a Timeline keeps for each process. `moments.Reading` has the same names.
Field = Literal["rss", "uss", "pss", "pss_shm", "faults", "fds", "threads"]
FIELDS: Final[tuple[Field, ...]] = get_args(Field)
_MOST_POINTS: Final = 400  # the most points to use, because `slopes` compares every pair
_ESTIMATED_FROM: Final[tuple[Field, ...]] = ("rss", "faults", "uss", "pss")  # the fields of Known


@dataclass(frozen=True)
class Bounds:
    """The limits on memory, in bytes, where None means that there is no limit or it's unknown.

    Args:
        machine: The machine's memory.
        cgroup: The cgroup's limit, such as a container has.
        shm: The size of `/dev/shm`.
    """

    machine: int | None = None
    cgroup: int | None = None
    shm: int | None = None

    @property
    def memory(self) -> int | None:
        """The lower of the machine's memory and the cgroup's limit, or None if there is neither."""
        return min((m for m in (self.machine, self.cgroup) if m is not None), default=None)


@dataclass(frozen=True, eq=False)
class ProcessCurves:
    """One process's figures in a Timeline, from the process's first sample to its last.

    Args:
        role: "main", "W0", ..., or "other" for a process without a name.
        first: The index of the process's first sample in the timeline.
        values: One array for each of FIELDS, with NaN where the field wasn't sampled.
        ended: When a sample found the process gone, in seconds, or None if it ran to the end.
        died: How the process died, such as "killed by SIGKILL", or "" if we don't know of a death.
    """

    role: str
    first: int
    values: dict[Field, Floats]
    ended: float | None = None
    died: str = ""

    @property
    def rows(self) -> slice:
        """The part of the timeline's arrays in which the process was running."""
        return slice(self.first, self.first + len(self.values["rss"]))

    def known(self) -> list[Known]:
        """Return the figures that an Estimate needs, for each sample of the process."""
        columns = [self.values[name].tolist() for name in _ESTIMATED_FROM]
        return [Known(*row) for row in zip(*columns, strict=True)]

    def was_read(self, field: Field) -> bool:
        """Return whether any sample of the process has this field."""
        return not bool(np.isnan(self.values[field]).all())


def slopes(along: Floats, values: Floats) -> Floats:
    """Return the slopes between all pairs of points, for the Theil-Sen estimate.

    If there are more than 400 points, use only every second one, or every third, and so on, so that
    at most 400 are left. Two points at the same position have no slope. `along` has the positions,
    such as the seconds or the number of batches, in ascending order.
    """
    step = max(1, math.ceil(len(along) / _MOST_POINTS))
    one, other = np.triu_indices(len(along[::step]), k=1)
    run = along[::step][other] - along[::step][one]
    rise = values[::step][other] - values[::step][one]
    return np.asarray(rise[run > 0] / run[run > 0])


def steady(batches: NDArray[np.int64], seconds: Floats) -> NDArray[np.bool_]:
    """Return a mask of the samples in the steady part of a process's life.

    The steady part begins at the first batch that arrives after the process's first sample. Without
    such a batch, the part begins after a quarter of the process's life or after 1 s, whichever is
    shorter.
    """
    if batches.size and batches[-1] > batches[0]:
        return np.asarray(batches > batches[0])
    start_up = min(1.0, 0.25 * float(np.ptp(seconds))) if seconds.size else 0.0
    return np.asarray(seconds >= seconds[:1] + start_up)
