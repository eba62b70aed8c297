"""Stand in for the OOM killer on machines that don't permit a cgroup with a memory limit."""

from __future__ import annotations

import os
import time
from typing import Final

from dltutor.observation.confinement.task import worker_numbers
from dltutor.system import processes
from dltutor.system.process_memory import pss, reader

_AGAIN: Final = 0.25  # seconds to wait for a killed process to give its memory back
_SHARE: Final = 0.1  # the largest fraction of a core to use for reading PSS


class Watchdog:
    """A substitute for the OOM killer that kills the largest worker if the processes pass a limit.

    `look` adds up RSS and, if the sum passes the limit (in bytes), PSS (or USS or RSS for a process
    whose PSS it can't read). If PSS passes the limit and no worker is alive, `look` kills the
    largest process. A cgroup is stricter: it also counts the page cache and files in `/dev/shm`
    that no process has mapped, and Linux checks its limit at every allocation.

    The file `workers` in the folder has the workers' pids. The attribute `killed` lists the pids of
    the processes that the watchdog has killed.
    """

    def __init__(self, limit: int, folder: str) -> None:
        self.killed: list[int] = []
        self._limit = limit
        self._reader = reader()
        self._folder = folder
        self._not_before = 0.0

    def look(self) -> None:
        """Add up the memory of this process's descendants, and kill one if they pass the limit.

        Do nothing for a while after reading PSS or killing a process.
        """
        started = time.monotonic()
        if started < self._not_before:
            return
        family = self._reader.descendants([os.getpid()])
        # PSS is never higher than RSS, so don't read PSS, which is slow, if RSS is low enough.
        if sum(self._rss(pid) for pid in family) <= self._limit:
            return
        sizes = {pid: pss(pid) for pid in family}
        self._not_before = started + (time.monotonic() - started) / _SHARE
        if sum(sizes.values()) > self._limit:
            living = [pid for pid in worker_numbers(self._folder) if sizes.get(pid)]
            largest = max(living or sizes, key=lambda pid: sizes[pid])
            # `end` also removes a batch that the worker was sending, which has a name in /dev/shm.
            if processes.end(processes.known(largest), spare=(processes.SHM_MANAGER,)):
                self.killed.append(largest)
            self._not_before = time.monotonic() + _AGAIN

    def _rss(self, pid: int) -> int:
        figures = self._reader.process(pid)
        return (figures[1]["rss"] or 0) if figures else 0
