"""Read from the kernel log which processes the OOM killer killed."""

from __future__ import annotations

import ctypes
import re
from typing import Final

_READ_ALL: Final = 3  # SYSLOG_ACTION_READ_ALL, for klogctl
_SIZE: Final = 10  # SYSLOG_ACTION_SIZE_BUFFER
_KILLED: Final = re.compile(r"Memory cgroup out of memory: Killed process \d+ .*")


class KernelLog:
    """A reader for the part of the kernel log that Linux writes after this object is made.

    The whole machine has a single log, which containers and users without privileges often can't
    read.
    """

    def __init__(self) -> None:
        # Each line begins with its time, so the last line appears in the log only once.
        self._last = (_read() or "").strip().rpartition("\n")[2]

    def kills(self, group: str) -> list[str] | None:
        """Return the lines about OOM kills in a cgroup since this object was made.

        The result is None if we can't read the log. The function `kills` describes the lines.
        """
        text = _read()
        if text is not None and self._last:
            text = text.split(self._last, 1)[-1]  # the whole log if Linux has dropped that line
        return None if text is None else kills(text, group)


def kills(text: str, group: str) -> list[str]:
    """Return a log's lines about the processes that the OOM killer killed in a cgroup.

    Linux writes the cgroup's name a few lines above each of these lines. We return each line from
    the words "Memory cgroup out of memory: Killed process" on.

    Args:
        text: The kernel log.
        group: The last part of the cgroup's path.
    """
    found = []
    ours = False
    for line in text.splitlines():
        killed = _KILLED.search(line)
        if killed and ours:
            found.append(killed[0])
        # Match the whole name, so that "dltutor-1" doesn't match "dltutor-12".
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
