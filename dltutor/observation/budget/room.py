"""What is free on this machine now, in `/dev/shm` and in memory."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dltutor.system.process_memory import Proc, Psutil, number, reader, shared_memory

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


def room(figures: Proc | Psutil | None = None) -> Room:
    """Measure what is free now.

    Args:
        figures: Where the memory's figures come from; None for this system's.
    """
    figures = figures or reader()
    used, limit = shared_memory()
    free = [figures.available(), _left_in_group(*figures.cgroup(os.getpid()))]
    known = [count for count in free if count is not None]
    shm = None if used is None or limit is None else limit - used
    return Room(shm, max(0, min(known, default=math.inf)))


def _left_in_group(file: str, limit: int | None) -> int | None:
    used = number(file)
    if limit is None or used is None:
        return None
    return limit - used + _page_cache(Path(file).with_name("memory.stat"))


def _page_cache(file: Path) -> int:
    # Charged to the group, and given up as soon as the memory is wanted. Of version 1 the names
    # that start with "total_" include the groups below.
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return 0
    found = {words[0]: int(words[1]) for words in lines if len(words) == 2}
    return found.get("total_inactive_file", found.get("inactive_file", 0))
