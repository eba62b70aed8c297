"""The kernel's own words about what its OOM killer did, where they may be read."""

from __future__ import annotations

import ctypes
import re
from typing import Final

_READ_ALL: Final = 3  # SYSLOG_ACTION_* of klogctl
_SIZE: Final = 10
_KILLED: Final = re.compile(r"Memory cgroup out of memory: Killed process \d+ .*")


class KernelLog:
    """The kernel's log from now on.

    It is one log for the whole machine. Containers and users without privileges often may not
    read it.
    """

    def __init__(self) -> None:
        # Each line begins with its time, so the last one so far is there only once.
        self._last = (_read() or "").strip().rpartition("\n")[2]

    def kills(self, group: str) -> list[str] | None:
        """The lines about the processes that were killed in a cgroup.

        Args:
            group: The group's name; it is in the lines before, with which the kernel explains.

        Returns:
            The lines from "Memory cgroup out of memory: Killed process" on; None where the log
            may not be read.
        """
        text = _read()
        if text is not None and self._last:
            text = text.split(self._last, 1)[-1]  # all of it, if that line was overwritten
        return None if text is None else kills(text, group)


def kills(text: str, group: str) -> list[str]:
    """As `KernelLog.kills`, of any text."""
    found = []
    ours = False
    for line in text.splitlines():
        killed = _KILLED.search(line)
        if killed and ours:
            found.append(killed[0])
        # Both ends: "dltutor-1" is not "dltutor-12".
        ours = not killed and (ours or re.search(rf"/{re.escape(group)}\b", line) is not None)
    return found


def _read() -> str | None:
    libc = ctypes.CDLL(None)
    size = libc.klogctl(_SIZE, None, 0) if hasattr(libc, "klogctl") else -1
    if size <= 0:
        return None
    buffer = ctypes.create_string_buffer(size)
    length = libc.klogctl(_READ_ALL, buffer, size)
    return buffer.raw[:length].decode(errors="replace") if length >= 0 else None
