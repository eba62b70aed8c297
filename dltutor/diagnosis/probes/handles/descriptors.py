"""Find the open descriptors of this process that a dataset uses, and slow down their use.

Forked workers share the read position or connection of a descriptor that main opened before it
forked them.
"""

from __future__ import annotations

import fcntl
import io
import os
import random
import select
import socket
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from dltutor.diagnosis.objects.walking import Found, walk
from dltutor.observation.foreign import attribute, is_a

#: The names of C functions that use a descriptor.
_ACTS: Final = frozenset(
    (
        *("seek", "lseek", "tell", "truncate", "flush", "fromfile"),
        *("read", "read1", "readinto", "readinto1", "readline", "readlines", "peek"),
        *("write", "writelines", "send", "sendall", "sendto", "sendmsg"),
        *("recv", "recv_into", "recvfrom"),
    )
)
#: Functions of modules, which get the descriptor as an argument that the profiler doesn't see.
_PLAIN: Final = frozenset({"lseek", "fromfile"})
_PAUSES: Final = (0.0005, 0.008)  # seconds; random pauses keep two workers from falling into step
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFSOCK: "socket", stat.S_IFIFO: "pipe"}
_TCP_COUNTS: Final = slice(120, 136)  # bytes acknowledged and received, in struct tcp_info


def descriptors() -> dict[int, str]:
    """Return the kind of each open descriptor of this process: "file", "socket", or "pipe".

    Leave out stdio, files that are open only for writing, and descriptors of any other kind.
    """
    found = {}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            kind = _KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode), "")
            # Several workers may write to a log file, for example, but no sample comes from it.
            written = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if descriptor > 2 and kind and not (kind == "file" and written):
                found[descriptor] = kind
    return found


def standing(of: dict[int, str]) -> dict[int, object]:
    """Return each file's position and each TCP connection's byte counts, by descriptor.

    Args:
        of: The descriptors with their kinds, as `descriptors` returns them.
    """
    found: dict[int, object] = {}
    for descriptor, kind in of.items():
        with suppress(OSError):
            if kind == "file":
                found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
            elif kind == "socket":
                found[descriptor] = _passed(descriptor)
    return found


def _passed(descriptor: int) -> bytes:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        return copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[_TCP_COUNTS]


def holders(dataset: Any, of: Collection[int]) -> list[Found]:
    """Return files and connections with these descriptors, in a dataset or its code's globals."""
    return [each for each in walk(dataset) if not is_a(each.thing, int) and _has(each, of)]


def _has(found: Found, of: Collection[int]) -> bool:
    with suppress(Exception):
        return found.thing.fileno() in of
    return False


def short_paths(held: list[Found]) -> list[str]:
    """Return the handles' paths without a private attribute, or all paths if each path has one."""
    return [each.path for each in held if "._" not in each.path] or [each.path for each in held]


def drain(of: dict[int, str]) -> None:
    """Read and discard the answers left in connections, because nothing waits for them anymore."""
    for descriptor, kind in of.items():
        with suppress(OSError):
            while kind != "file" and select.select([descriptor], [], [], 0.1)[0]:
                if not os.read(descriptor, 1 << 16):
                    break


class Listener:
    """A profiler that notices the C functions that use a descriptor, and may slow them down.

    Pass its method `heard` to `profiled`.

    Args:
        of: The descriptors to watch, with the kind of each.
        budget: How many seconds all pauses may take together. If 0, there are no pauses.
    """

    def __init__(self, of: dict[int, str], budget: float = 0.0) -> None:
        self.of = of
        self.budget = budget
        self.used: set[int] = set()
        self._pauses = random.Random(os.getpid())

    def heard(self, frame: Any, event: str, function: Any) -> None:
        if event != "c_return" or attribute(function, "__name__", "") not in _ACTS:
            return
        owner = attribute(function, "__self__")
        descriptor = _descriptor(owner)
        if descriptor in self.of:
            self.used.add(descriptor)
        elif not (descriptor is None and function.__name__ in _PLAIN):
            return
        if self.budget > 0:
            pause = self._pauses.uniform(*_PAUSES)
            self.budget -= pause
            time.sleep(pause)


def _descriptor(owner: Any) -> int | None:
    if is_a(owner, (io.BytesIO, io.StringIO)):
        return -1
    # An `_ssl._SSLSocket` has no fileno(), but its `owner`, the `ssl.SSLSocket`, does.
    for each in (owner, attribute(owner, "owner")):
        with suppress(Exception):
            return int(each.fileno())
    return None
