"""One process's part of a Timeline, and the limits that it lived under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.estimates import Known

Floats = NDArray[np.float64]

# What is kept of each process; `moments.Reading` has the same names.
Field = Literal["rss", "uss", "pss", "pss_shm", "faults", "fds", "threads"]
FIELDS: Final[tuple[Field, ...]] = get_args(Field)
_ESTIMATED_FROM: Final[tuple[Field, ...]] = ("rss", "faults", "uss", "pss")  # as in Known


@dataclass(frozen=True)
class Limits:
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
class Life:
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
