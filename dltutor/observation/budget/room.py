"""What is free on this machine now, in `/dev/shm` and in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dltutor.system.cgroup_files import memory_left
from dltutor.system.process_memory import reader, shared_memory

_SAFE: Final = 0.75  # of what is free; of an empty /dev/shm of 64 MB, as containers have it: 48


@dataclass(frozen=True)
class Room:
    """What is free, in bytes.

    Args:
        shm: In `/dev/shm`; None where there is none.
        memory: What the machine can still give without swapping, within the cgroup's limit.
    """

    shm: int | None
    memory: float

    @property
    def safe_shm(self) -> float:
        """What may be taken of `/dev/shm`; no end where there is none."""
        return math.inf if self.shm is None else _SAFE * self.shm

    @property
    def safe_memory(self) -> float:
        """What may be taken of the memory."""
        return _SAFE * self.memory


def room() -> Room:
    """Measure what is free now."""
    used, limit = shared_memory()
    free = [reader().available(), memory_left()]
    known = [count for count in free if count is not None]
    shm = None if used is None or limit is None else limit - used
    return Room(shm, max(0, min(known, default=math.inf)))
