"""Tell torch's workers from other processes by their name in `/proc`."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import Final

_COMMAND: Final = "pt_data_worker"  # torch's worker loop gives its process this name


class WorkerNames:
    """A callable, for a Recorder's `roles`, that names workers W0, W1, ... as they appear.

    The workers may be any loader's. When a worker is gone, its number is free again, so the next
    epoch begins with W0. Without a `/proc`, no process gets a name.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = Path(proc)
        self._pids: dict[int, int] = {}  # number -> pid

    def __call__(self, pid: int) -> str | None:
        """Return a process's role, or None if the process isn't a worker, or isn't one yet."""
        if not self._works(pid):
            return None
        self._pids = {number: each for number, each in self._pids.items() if self._works(each)}
        known = (number for number, each in self._pids.items() if each == pid)
        free = (number for number in count() if number not in self._pids)
        number = next(chain(known, free))
        self._pids[number] = pid
        return f"W{number}"

    def _works(self, pid: int) -> bool:
        try:
            return (self._proc / str(pid) / "comm").read_text().strip() == _COMMAND
        except OSError:
            return False
