"""Measure how much memory and `/dev/shm` a loader holds at one moment, and how much is free."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Final

from dltutor.system.process_memory import DENIED, free, reader, shared_memory
from dltutor.system.processes import held_segments

SAFE: Final = 0.75  # the fraction of free memory, and of free /dev/shm, that is safe to use


@dataclass(frozen=True)
class Room:
    """The free memory and the free space in `/dev/shm` at one moment, in bytes.

    Args:
        shm: How much is free in `/dev/shm`, or infinity without a `/dev/shm`.
        memory: How much memory the machine can give without swapping, within the cgroup's limit, or
            infinity if unknown.
    """

    shm: float
    memory: float


def room() -> Room:
    """Measure how much memory, and how much of `/dev/shm`, is free now."""
    used, limit = shared_memory()
    left = free()
    shm = math.inf if used is None or limit is None else limit - used
    return Room(shm, math.inf if left is None else left)


@dataclass(frozen=True)
class Usage:
    """The memory that a loader holds at one moment, in bytes.

    Args:
        once: The part of `processes` from processes that are neither main nor workers.
        processes: All processes' PSS without its part in shared memory, or USS if there is no PSS.
        shared: The size of the batches in `/dev/shm`, or None without a `/dev/shm`.
    """

    once: int
    processes: int
    shared: int | None

    @property
    def total(self) -> int:
        """The memory of the processes and the batches, even batches that wait in a queue."""
        return self.processes + (self.shared or 0)


class Lookout:
    """A meter for the memory of this process and of the processes that a loader starts.

    Batches that this process held when the Lookout was made don't count.
    """

    def __init__(self) -> None:
        self._reader = reader()
        self._others: set[int] = set()
        self._held_before = set(held_segments([os.getpid()]))

    def ignore_running(self) -> None:
        """Leave this process's current descendants out of later measurements."""
        self._others = self._reader.descendants([os.getpid()])

    def look(self, workers: set[int]) -> Usage:
        """Measure the loader's memory now, or only main's if `workers` (a set of pids) is empty."""
        main = os.getpid()
        started = self._reader.descendants([main]) - self._others if workers else set()
        # Read the descriptors twice. While a process passes a batch on, the batch's file may move
        # from a descriptor that we haven't read yet to a number that we already saw as free.
        held = held_segments([main, *started]) | held_segments([main, *started])
        new = sum(size for file, size in held.items() if file not in self._held_before)
        once = sum(self._memory(pid) for pid in started - workers)
        rest = sum(self._memory(pid) for pid in {main} | (started & workers))
        return Usage(once, once + rest, new if os.path.isdir("/dev/shm") else None)

    def _memory(self, pid: int) -> int:
        figures = self._reader.memory(pid) or DENIED
        if figures["pss"] is not None:
            return figures["pss"] - (figures["pss_shm"] or 0)
        return figures["uss"] or 0
