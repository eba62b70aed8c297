"""A mark that a process hands on to everything it starts (Linux).

It's the soft limit on file locks, RLIMIT_LOCKS. Linux hasn't enforced that limit since 2.4.25, but
every process still has one and hands it on: through fork and exec, into a new session, with an
empty environment, after its parent is gone. Setting it takes no privilege. So "this process
descends from one that we marked" can be asked of any process at any time (measured on Linux 6.18:
3 µs per process).

A marked process can hand out marks of its own, two levels deep: a check runs an answer, which
observes a loader. What carries the inner mark also carries the outer one.

Standard library only, since the memory sampler and the supervisor import it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost the sampler as much as all the rest
if TYPE_CHECKING:
    from typing import Final

_LOCKS: Final = 10  # RLIMIT_LOCKS of asm-generic/resource.h; Python's resource has no name for it
_LEVELS: Final = (32, 16, 0)  # a mark's 63 bits: 31 for the outermost level, 16 for each inner one
_BITS: Final = (31, 16, 16)


def new() -> int:
    """Make a mark for what this process is about to start.

    Returns:
        The mark; 0 where there are none: not on Linux, or three levels deep already.
    """
    mine = _read(os.getpid()) or 0
    for level, bits in zip(_LEVELS, _BITS, strict=True):
        if mine % (1 << (level + bits)) == 0:
            drawn = int.from_bytes(os.urandom(8)) % ((1 << bits) - 1) + 1  # never 0
            return mine | drawn << level if sys.platform.startswith("linux") else 0
    return 0


def put(mark: int, pid: int = 0) -> None:
    """Mark a process; what it starts from now on is marked, too.

    Nothing happens where the system doesn't permit it, or when the process is gone.

    Args:
        mark: What `new` returned.
        pid: The process; 0 for this one.
    """
    if not mark:
        return
    import resource

    try:
        hard = resource.prlimit(pid, _LOCKS)[1]
        resource.prlimit(pid, _LOCKS, (mark, hard))
    except (OSError, ValueError):  # gone, another user's, or a system that knows no such limit
        pass


def carries(pid: int, mark: int) -> bool:
    """Whether a process carries a mark, or one that was handed out inside it."""
    value = _read(pid) if mark else None
    if value is None:
        return False
    level = next(each for each in _LEVELS if mark % (1 << each) == 0)
    return value >> level == mark >> level


def carriers(mark: int) -> set[int]:
    """The pids of all processes of this machine that carry a mark, zombies among them."""
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
    # A limit that somebody has set with `ulimit -x` is smaller.
    return value if value >= 1 << _LEVELS[0] else None
