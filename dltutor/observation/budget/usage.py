"""How much a loader holds in memory and in `/dev/shm` at one moment, and how much is free."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dltutor.system.cgroup_files import memory_left
from dltutor.system.process_memory import DENIED, reader, shared_memory

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


@dataclass(frozen=True)
class Usage:
    """What the processes of a loader hold at one moment, in bytes.

    Args:
        once: PSS of those that are neither main nor workers.
        processes: PSS of all, without what is in shared memory. Where there is no PSS, USS.
        shared: The batches in `/dev/shm`; None where there is none.
    """

    once: int
    processes: int
    shared: int | None

    @property
    def total(self) -> int:
        """Processes and batches. PSS alone misses the batches that wait in a queue."""
        return self.processes + (self.shared or 0)


class Lookout:
    """Looks at this process and at what a loader has started from it."""

    def __init__(self) -> None:
        self._reader = reader()
        self._others: set[int] = set()
        self._held_before = set(_held([os.getpid()]))

    def leave_out_others(self) -> None:
        """Count none of the processes that descend from this one by now."""
        self._others = self._reader.descendants([os.getpid()])

    def look(self, workers: set[int]) -> Usage:
        """What is held now.

        Args:
            workers: Their pids; empty before the loader has started: then main alone counts.
        """
        main = os.getpid()
        started = self._reader.descendants([main]) - self._others if workers else set()
        # Twice: while a batch is handed on, its file may move to a descriptor that was listed as
        # free, and leave one that is not looked at yet.
        held = _held([main, *started]) | _held([main, *started])
        new = sum(size for file, size in held.items() if file not in self._held_before)
        once = sum(self._memory(pid) for pid in started - workers)
        rest = sum(self._memory(pid) for pid in {main} | (started & workers))
        return Usage(once, once + rest, new if os.path.isdir("/dev/shm") else None)

    def _memory(self, pid: int) -> int:
        figures = self._reader.memory(pid) or DENIED
        if figures["pss"] is not None:
            return figures["pss"] - (figures["pss_shm"] or 0)
        return figures["uss"] or 0


def _held(pids: list[int]) -> dict[int, int]:
    """The files in `/dev/shm` that processes have open, by inode, with their sizes in bytes.

    The sum over all of `/dev/shm` would count what others do there meanwhile. A batch has no name
    there any more, but somebody has it open: the worker, until it is fetched, and then main.
    """
    found: dict[int, int] = {}
    if not os.path.isdir("/dev/shm"):
        return found
    device = os.stat("/dev/shm").st_dev
    for pid in pids:
        with suppress(OSError):  # the process is gone
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile
                    file = os.stat(f"/proc/{pid}/fd/{name}")
                    if file.st_dev == device:
                        found[file.st_ino] = file.st_blocks * 512
    return found
