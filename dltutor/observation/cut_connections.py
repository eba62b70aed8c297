"""Cut the connections that a fork inherits, so that it can't send or receive over them.

A fork has its parent's connections. What the fork writes reaches the parent's server, and what the
fork reads is missing from the parent's answer. Many clients even send a goodbye message when
they're closed, so the server would end the parent's session.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import stat
import termios
from contextlib import suppress
from typing import Final

_SHM_MANAGER: Final = "/torch-shm-dir-"  # part of the socket path of torch's shared-memory manager
_UNREAD: Final = b"?"


class CutConnections:
    """A context manager with replacements for the connections that are open when the block begins.

    A connection is a connected TCP or Unix stream socket. In a fork, `cut` replaces each connection
    with a socket that leads nowhere. The new socket accepts writes, has one byte to read (so
    that `used` notices a reader), and is then at its end, so no reader waits for more. Connections
    to torch's shared-memory managers stay. If `wanted` is False, all connections stay.
    """

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted
        self._ends: dict[int, tuple[socket.socket, socket.socket]] = {}

    def __enter__(self) -> CutConnections:
        for descriptor in map(int, os.listdir("/dev/fd") if self._wanted else ()):
            if _is_connection(descriptor):
                near, far = socket.socketpair()
                self._ends[descriptor] = near, far
                far.send(_UNREAD)
                far.shutdown(socket.SHUT_WR)
                near.setblocking(os.get_blocking(descriptor))
        return self

    def __exit__(self, *raised: object) -> None:
        for near, far in self._ends.values():
            near.close()
            far.close()

    def cut(self) -> None:
        """Replace the connections that this fork inherited. Call this in a fork, never in main."""
        for descriptor, (near, _) in self._ends.items():
            os.dup2(near.fileno(), descriptor, inheritable=os.get_inheritable(descriptor))
        self.__exit__()

    def used(self) -> tuple[int, ...]:
        """Return the descriptors of the connections that forks have written to or read from."""
        return tuple(
            descriptor
            for descriptor, (near, far) in self._ends.items()
            if _waiting(far) or _waiting(near) != len(_UNREAD)
        )


def _is_connection(descriptor: int) -> bool:
    with suppress(OSError):  # listdir's own descriptor is closed, or the socket isn't connected
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as copy:
                known = copy.family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
                peer = copy.getpeername()
                stream = copy.type == socket.SOCK_STREAM
                return known and stream and _SHM_MANAGER not in str(peer)
    return False


def _waiting(end: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, count)
    return count[0]
