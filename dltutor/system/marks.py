"""Mark a process, so that everything it starts inherits the mark (Linux).

The mark is the soft limit on file locks, RLIMIT_LOCKS. Linux hasn't enforced that limit since
2.4.25, but every process still has the limit, and its children inherit it through fork and exec, in
a new session, with an empty environment, and even after their parent has ended. A process needs no
privilege to set the limit. So we can ask at any time whether a process descends from a process that
we marked. Asking takes 3 µs per process (measured on Linux 6.18).

A marked process can make marks of its own, two levels deep, because a lesson's check runs the
learner's answer in a marked process, and the answer may mark the workers of a loader that it
observes. A process that carries the inner mark also carries the outer mark.

This module imports only the standard library, because the memory sampler and the supervisor of
`confine` use it, and they run without site-packages.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would take as long as the rest of the sampler's start
if TYPE_CHECKING:
    from typing import Final

_LOCKS: Final = 10  # RLIMIT_LOCKS in asm-generic/resource.h, which Python's `resource` doesn't name
_LEVELS: Final = (32, 16, 0)  # each level's shift in a mark's 63 bits, outermost first
_BITS: Final = (31, 16, 16)  # how many bits each level has


def new() -> int:
    """Make a mark for the processes that this process is about to start.

    Return 0 if the system isn't Linux, or if this process carries a mark of the third level.
    """
    mine = _read(os.getpid()) or 0
    for level, bits in zip(_LEVELS, _BITS, strict=True):
        if mine % (1 << (level + bits)) == 0:
            drawn = int.from_bytes(os.urandom(8)) % ((1 << bits) - 1) + 1  # never 0 (no mark)
            return mine | drawn << level if sys.platform.startswith("linux") else 0
    return 0


def put(mark: int, pid: int = 0) -> None:
    """Mark a process (this one, if the pid is 0) and everything that it starts from now on.

    Do nothing if the mark is 0, the process is gone, or the system doesn't let us mark the process.
    """
    if not mark:
        return
    import resource

    try:
        hard = resource.prlimit(pid, _LOCKS)[1]
        resource.prlimit(pid, _LOCKS, (mark, hard))
    except (OSError, ValueError):  # the process is gone or not ours, or the system rejects the mark
        pass


def carries(pid: int, mark: int) -> bool:
    """Return whether a process carries this mark, or a mark that a process with this mark made."""
    value = _read(pid) if mark else None
    if value is None:
        return False
    level = next(each for each in _LEVELS if mark % (1 << each) == 0)
    return value >> level == mark >> level


def carriers(mark: int) -> set[int]:
    """Return the pids of all processes on this machine that carry a mark, including zombies."""
    if not mark or not os.path.isdir("/proc"):
        return set()
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {pid for pid in pids if carries(pid, mark)}


def _read(pid: int) -> int | None:
    if not sys.platform.startswith("linux"):
        return None
    import resource

    try:
        value = resource.prlimit(pid, _LOCKS)[0]
    except (OSError, ValueError):
        return None
    # A smaller value is -1 (no limit) or a limit that a user has set with `ulimit -x`, not a mark.
    return value if value >= 1 << _LEVELS[0] else None
