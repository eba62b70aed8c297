"""The processes that descend from one: find them, end them, and tidy up after them.

Standard library only. Where there is no `/proc`, psutil finds the processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dltutor.system.process_memory import reader

_DIE_WITH_PARENT: Final = 1  # PR_SET_* and PR_GET_* of linux/prctl.h
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37

_PATIENCE: Final = 10.0  # seconds in which at least one more of the killed must be gone
_TIDY: Final = 4.0  # seconds for those that tidy up after others: on a busy machine they need them
# They end by themselves once nobody is left to serve, and unlink what was left in /dev/shm.
_TIDIERS: Final = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
_SHM: Final = Path("/dev/shm")


def adopt_orphans(on: bool = True) -> bool:
    """Have descendants whose parent dies become children of this process, or no longer (Linux).

    A child does not inherit it.

    Returns:
        What was set before; False where the system does not know it.
    """
    before = ctypes.c_int()
    _prctl(_GET_SUBREAPER, ctypes.byref(before))
    _prctl(_SET_SUBREAPER, ctypes.c_ulong(on))
    return bool(before.value)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent dies (Linux).

    To the kernel, the parent is the thread that forked this process.

    Args:
        parent: The parent's pid, in case that it is dead already.
    """
    _prctl(_DIE_WITH_PARENT, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def descendants(pid: int) -> set[int]:
    """The children of a process, their children, and so on, zombies among them."""
    return reader().descendants([pid])


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    return reader().is_alive(pid)


def has_name(pid: int, *names: bytes) -> bool:
    """Whether one of these words is in the command line of a process; False if it is gone."""
    command = reader().command(pid)
    return any(name in command for name in names)


def end(*pids: int, spare: Iterable[int] = ()) -> set[int]:
    """Kill processes and all that descend from them, and wait until they are gone.

    It gives up where no more of them has gone for 10 s.

    Each is stopped before it is killed, so that none starts another meanwhile. Resource trackers
    and torch's shared-memory managers get four seconds to end by themselves, from when nobody is
    left to serve: they tidy up. Children of this process are reaped; those that multiprocessing
    started, by multiprocessing.

    Args:
        pids: Of any processes but this one.
        spare: Pids of descendants that are not to be killed. Their children are.

    Returns:
        The pids of all that are gone, those included that had ended before.
    """
    return _end(lambda: {*pids} | reader().descendants(list(pids)), {*spare})


def end_descendants(pid: int | None = None, *, spare: Iterable[int] = ()) -> set[int]:
    """As `end`, of all that descend from a process, which itself lives on.

    Args:
        pid: The process; None for this one.
        spare: Pids of descendants that are not to be killed. Their children are.
    """
    root = os.getpid() if pid is None else pid
    return _end(lambda: descendants(root), {*spare, root})


def _end(family: Callable[[], set[int]], spare: set[int]) -> set[int]:
    spare |= {os.getpid()}
    figures = reader()  # once: of thousands of processes, each look is long
    found: set[int] = set()
    stopped: set[int] = set()
    progress = served = time.monotonic()
    most = 0
    while True:
        found |= family() - spare
        living = {pid for pid in found if figures.is_alive(pid)} | _reap(found)
        if len(found) - len(living) > most:  # thousands take their time
            most, progress = len(found) - len(living), time.monotonic()
        # A child whose parent dies while the family is listed is found at the next look only.
        if time.monotonic() > progress + _PATIENCE or not (living or family() - spare - found):
            return found - living
        ready = living & stopped
        ready |= {pid for pid in living - stopped if not _may_tidy(figures.command(pid))}
        if ready:
            served = time.monotonic()
        elif time.monotonic() > served + _TIDY:
            ready = living
        for pid in ready:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if pid in stopped else signal.SIGSTOP)
        stopped |= ready
        time.sleep(0.005)


def _may_tidy(command: bytes) -> bool:
    # One that has just been started has no command line yet: it may be a resource tracker.
    return not command or any(name in command for name in _TIDIERS)


def _reap(pids: set[int]) -> set[int]:
    # Returns the children that are not over: a dead one may still have threads that end.
    # multiprocessing must reap its own: it takes a child that somebody else reaped for alive.
    module: Any = sys.modules.get("multiprocessing.process")
    own = {child.pid for child in module.active_children()} if module else set()
    left = set()
    for pid in pids - own:
        with suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                left.add(pid)
    return left


def end_strays(folder: str) -> None:
    """Kill the processes whose temporary folder this is, whoever their parent is by now (Linux).

    Args:
        folder: Their TMPDIR, which no other process has.
    """
    mark = f"TMPDIR={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone, or somebody else's
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def segments() -> set[str]:
    """The names of what lies in `/dev/shm`; empty where there is none."""
    return {entry.name for entry in os.scandir(_SHM)} if _SHM.is_dir() else set()


def unlink_segments(pids: Iterable[int]) -> None:
    """Remove the batches in `/dev/shm` that processes which are gone left there.

    A worker killed between making a segment and unlinking it leaves `torch_PID_...` behind. One
    that is in use in this process is a batch that somebody kept: torch unlinks it, and aborts the
    process if it is gone by then.
    """
    owners = {*pids}
    theirs = [name for name in segments() if _owner(name) in owners]
    used = Path("/proc/self/maps").read_text() if theirs else ""
    for name in theirs:
        if f"{_SHM}/{name}" not in used:
            with suppress(OSError):  # gone, or somebody else's
                (_SHM / name).unlink()


def _owner(segment: str) -> int:
    owner = segment.split("_")[1] if segment.startswith("torch_") else ""
    return int(owner) if owner.isdigit() else 0


def _prctl(option: int, value: object) -> None:
    if sys.platform.startswith("linux"):
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(option, value, zero, zero, zero)
