"""The kernel's own words about what its OOM killer did, where they may be read."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from typing import Final

_KMSG: Final = "/dev/kmsg"
_READ_ALL: Final = 3  # SYSLOG_ACTION_* of klogctl
_SIZE: Final = 10
_KILLED: Final = re.compile(r"Memory cgroup out of memory: Killed process \d+ .*")


class KernelLog:
    """The kernel's log from now on.

    It is one log for the whole machine. Containers and users without privileges often may not
    read it.
    """

    def __init__(self) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._file, 0, os.SEEK_END)

    def kills(self, group: str) -> list[str] | None:
        """The lines about the processes that were killed in a cgroup.

        Args:
            group: The group's name; it is in the lines before, with which the kernel explains.

        Returns:
            The lines from "Memory cgroup out of memory: Killed process" on; None where the log
            may not be read. Can be called once.
        """
        text = self._from_kmsg() if self._file >= 0 else _from_klogctl()
        return None if text is None else kills(text, group)

    def _from_kmsg(self) -> str:
        text = b""
        with suppress(BlockingIOError):  # that was all
            while True:
                with suppress(BrokenPipeError):  # older records were overwritten meanwhile
                    text += os.read(self._file, 8192)
        os.close(self._file)
        return text.decode(errors="replace")


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


def _from_klogctl() -> str | None:
    libc = ctypes.CDLL(None)
    size = libc.klogctl(_SIZE, None, 0) if hasattr(libc, "klogctl") else -1
    if size <= 0:
        return None
    buffer = ctypes.create_string_buffer(size)
    length = libc.klogctl(_READ_ALL, buffer, size)
    return buffer.raw[:length].decode(errors="replace") if length >= 0 else None
