"""Give a fork its own open files, so that it doesn't move the positions in its parent's files.

A fork and its parent share one read position for each open file. This module opens regular files
again, at the same position and in the same mode. `positions` and `open_again` say which files are
exceptions.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Final

_FDINFO: Final = "/proc/self/fdinfo"  # says for each descriptor which locks the open file has
_BY_NAME: Final = os.O_NOFOLLOW | getattr(os, "O_TMPFILE", 0)
_PROBES: Final = (signal.SIGUSR1, signal.SIGUSR2)


def positions() -> dict[int, int]:
    """Return the position of each regular file that is open for reading, by its descriptor.

    Leave out stdin. Also leave out files that are open only for writing, and the files that stdout
    and stderr go to, because the fork and its parent both write to these files, and the parent's
    next line belongs after the fork's last line.
    """
    found = {}
    printed = []
    for descriptor in (1, 2):
        with suppress(OSError):  # the stream is closed
            printed.append(os.fstat(descriptor))
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # listdir's own descriptor is closed, or the file has no position
            status = os.fstat(descriptor)
            written = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            log = written or any(os.path.samestat(status, each) for each in printed)
            if descriptor > 2 and not log and stat.S_ISREG(status.st_mode):
                found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return found


def put_back(before: Mapping[int, int]) -> None:
    """Move each file back to the position that `positions` returned for its descriptor."""
    for descriptor, position in before.items():
        with suppress(OSError):
            os.lseek(descriptor, position, os.SEEK_SET)


def open_again() -> list[int]:
    """Give this process, a fork, its own positions in the files that it has open.

    Descriptors that shared a position with each other still share one.

    Returns:
        The descriptors whose positions the parent still shares, because their files are locked or
        couldn't be opened again.
    """
    shared = []
    with ExitStack() as opened:
        for twins in _by_file(positions()):
            done: dict[int, int] = {}  # duplicate of an old descriptor -> the new descriptor
            for descriptor in twins:
                try:
                    again = next((done[old] for old in done if _is_same(old, descriptor)), None)
                    if again is None:
                        again = _opened_again(descriptor)
                        opened.callback(os.close, again)
                        if len(twins) > 1:
                            old = os.dup(descriptor)
                            opened.callback(os.close, old)
                            done[old] = again
                    os.dup2(again, descriptor, inheritable=os.get_inheritable(descriptor))
                except OSError:
                    shared.append(descriptor)
    return shared


def _by_file(descriptors: Iterable[int]) -> list[list[int]]:
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for each in descriptors:
        status = os.fstat(each)
        found[status.st_dev, status.st_ino].append(each)
    return list(found.values())


def _opened_again(descriptor: int) -> int:
    # A lock belongs to the open file, and a file that we open again would be without the lock. So
    # refuse to open a locked file again.
    with open(f"{_FDINFO}/{descriptor}") as info:
        if "\nlock:" in info.read():
            raise OSError
    # Drop the flags about the file's name, because the name is now a link in /proc.
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~_BY_NAME
    again = os.open(f"/proc/self/fd/{descriptor}", flags)
    os.lseek(again, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
    return again


def _is_same(one: int, other: int) -> bool:
    # Two descriptors for one open file share the file's settings. So change a setting through one
    # descriptor and read the setting through the other. We use the signal for asynchronous input,
    # because no regular file sends that signal.
    before = fcntl.fcntl(one, fcntl.F_GETSIG)
    probe = next(each for each in _PROBES if each != before)
    if fcntl.fcntl(other, fcntl.F_GETSIG) != before:
        return False
    fcntl.fcntl(one, fcntl.F_SETSIG, probe)
    try:
        return fcntl.fcntl(other, fcntl.F_GETSIG) == probe
    finally:
        fcntl.fcntl(one, fcntl.F_SETSIG, before)
