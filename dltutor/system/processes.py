"""The processes that we started: find them, end them, and tidy up after them.

Standard library only. Where there is no `/proc`, psutil finds the processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from dltutor.system.marks import carriers, carries
from dltutor.system.process_memory import Proc, reader
from dltutor.system.psutil_reader import Psutil

_DIE_WITH_PARENT: Final = 1  # PR_SET_* and PR_GET_* of linux/prctl.h
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37

_PATIENCE: Final = 10.0  # seconds in which at least one more of the killed must be gone
_STANDING: Final = 1.0  # seconds for one that was stopped to stand still
_TIDY: Final = 4.0  # seconds for those that tidy up after others: on a busy machine they need them
# They end by themselves once nobody is left to serve, and unlink what was left in /dev/shm.
_TIDIERS: Final = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
_SHM: Final = Path("/dev/shm")
_NO_FILE: Final = (0, 0)
_NEVER: Final = -1.0  # when a process started that is gone


class Process(NamedTuple):
    """A process. A pid can become another one's, so it counts only together with the start.

    Args:
        pid: Its pid.
        start: When it started, as the system counts.
    """

    pid: int
    start: float


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
    return _figures().descendants([pid])


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    return _figures().is_alive(pid)


def has_name(pid: int, *names: bytes) -> bool:
    """Whether one of these words is in the command line of a process; False if it is gone."""
    command = _figures().command(pid)
    return any(name in command for name in names)


def known(pid: int) -> Process:
    """A process by its pid, as it is now. One that is gone never started, and never comes back."""
    birth = _figures().birth(pid)
    return Process(pid, birth[0] if birth else _NEVER)


@cache  # because with thousands of processes, each look takes long
def _figures() -> Proc | Psutil:
    return reader()


def end(*processes: Process, mark: int = 0, spare: Iterable[bytes] = ()) -> set[Process]:
    """Kill processes that you started and all that descend from them, and wait until they're gone.

    It gives up if none of them has exited for 10 s.

    Each is stopped before it's killed, so that it can't start another in between. Resource
    trackers and torch's shared-memory managers tidy up after others, so they get four seconds to
    end by themselves once there's nobody left to serve. Children of this process are reaped, but
    those that multiprocessing started are left to multiprocessing.

    A batch that one of them was passing on in `/dev/shm` is removed: one that it had open or
    mapped, because a name alone doesn't say whose it is (with `docker --ipc=host`, a pid there
    isn't a pid here).

    Args:
        processes: Any but this one.
        mark: What they carry (see `dltutor.system.marks`): all that carry it are ended too,
            orphans among them. 0 for none.
        spare: Words of the command lines of those that are left alone. Their children aren't.

    Returns:
        All that are gone, including those that had ended before.
    """
    return _end({*processes}, set(), mark, tuple(spare))


def end_descendants(mark: int = 0) -> set[Process]:
    """As `end`, for all that descends from this process, and all else that carries the mark."""
    return _end(set(), {os.getpid()}, mark, ())


def _end(found: set[Process], heads: set[int], mark: int, spare: tuple[bytes, ...]) -> set[Process]:
    found, spared = {*found}, {known(os.getpid())}
    stopped: dict[Process, float] = {}  # and when
    shared: dict[str, tuple[int, int]] = {}
    progress = served = time.monotonic()
    most = 0
    while True:
        new = _family(found | spared, heads, mark) - found - spared
        spared |= {each for each in new if spare and has_name(each.pid, *spare)}
        found |= new - spared
        living = {each for each in found if is_running(each)} | _reap(found)
        if len(found) - len(living) > most:  # thousands take their time
            most, progress = len(found) - len(living), time.monotonic()
        # If a parent dies while its family is listed, its child is found only at the next look.
        if time.monotonic() > progress + _PATIENCE or not (living or new - spared):
            unlink_segments(shared)
            return found - living
        now = time.monotonic()
        ready = {
            each
            for each in living & stopped.keys()
            if _figures().has_stopped(each.pid) or now > stopped[each] + _STANDING
        }
        running = living - stopped.keys()
        ready |= {each for each in running if not _may_tidy(_figures().command(each.pid))}
        if ready or running != living:
            served = now
        elif now > served + _TIDY:
            ready = living
        for each in ready:
            if each in stopped:
                shared |= segments_of(each.pid)
            _send(each, signal.SIGKILL if each in stopped else signal.SIGSTOP)
        stopped |= {each: now for each in ready - stopped.keys()}
        time.sleep(0.005)


def _family(members: set[Process], heads: set[int], mark: int) -> set[Process]:
    # What descends from them, and what carries the mark. A pid can be somebody else's by the time
    # that we look at it again, so parent and start are read at once, and the mark in between.
    figures = _figures()
    parents = {each.pid for each in members if is_running(each)} - {os.getpid()} | heads
    pids = figures.descendants([*parents])
    parents |= pids
    family = set()
    for pid in pids | carriers(mark):
        birth = figures.birth(pid)
        if birth and (birth[1] in parents or (carries(pid, mark) and figures.birth(pid) == birth)):
            family.add(Process(pid, birth[0]))
    return family


def is_running(process: Process) -> bool:
    """Whether this very process is there, and no zombie."""
    return is_alive(process.pid) and known(process.pid) == process


def _send(process: Process, number: int) -> None:
    # By a descriptor where there are any (Linux 5.3), because a pid can become somebody else's
    # between a look and a kill.
    descriptor = None
    with suppress(AttributeError, OSError):  # a container may forbid it
        descriptor = os.pidfd_open(process.pid)
    try:
        if known(process.pid) == process:
            with suppress(ProcessLookupError, PermissionError):
                if descriptor is None:
                    os.kill(process.pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _may_tidy(command: bytes) -> bool:
    # A process that has just been started has no command line yet, and may be a resource tracker.
    return not command or any(name in command for name in _TIDIERS)


def _reap(processes: set[Process]) -> set[Process]:
    # Returns the children that haven't ended: a dead one may still have threads that are ending.
    # multiprocessing must reap its own, because it takes a child that somebody else reaped for
    # alive.
    module: Any = sys.modules.get("multiprocessing.process")
    own = {child.pid for child in module.active_children()} if module else set()
    left = set()
    for each in processes:
        if each.pid not in own and known(each.pid) == each:
            with suppress(ChildProcessError):
                if os.waitpid(each.pid, os.WNOHANG)[0] == 0:
                    left.add(each)
    return left


def segments() -> set[str]:
    """The names of what lies in `/dev/shm`; empty where there is none."""
    return {entry.name for entry in os.scandir(_SHM)} if _SHM.is_dir() else set()


def segments_of(pid: int) -> dict[str, tuple[int, int]]:
    """The batches in `/dev/shm` that a process has open or mapped, and that have a name there.

    A worker that dies between making a segment and unlinking it leaves `torch_PID_...` behind; with
    the sharing strategy `file_system` each batch has a name for as long as it lives.

    Args:
        pid: The process.

    Returns:
        Their device and inode, by name; empty if the process is gone or can't be looked at.
    """
    named = {_identity(_SHM / name): name for name in segments() if name.startswith("torch_")}
    if not named:
        return {}
    return {named[file]: file for file in files_of(pid) & named.keys()}


def unlink_segments(owned: Mapping[str, tuple[int, int]]) -> None:
    """Remove batches from `/dev/shm`, unless the name is another file's by now.

    One that is in use in this process is a batch that somebody kept: torch unlinks it, and aborts
    the process if it's gone by then.

    Args:
        owned: What `segments_of` returned.
    """
    used = files_of(os.getpid()) if owned else set()
    for name, file in owned.items():
        if file not in used and _identity(_SHM / name) == file:
            with suppress(OSError):  # gone, or another user's
                (_SHM / name).unlink()


def files_of(pid: int) -> set[tuple[int, int]]:
    """The files that a process has open, and those in `/dev/shm` that it has mapped.

    Args:
        pid: The process, which may have a `/dev/shm` of its own.

    Returns:
        Their device and inode; empty if the process is gone or can't be looked at.
    """
    found = set()
    with suppress(OSError):  # gone, or another user's
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            words = line.split()
            if len(words) > 5 and words[5].startswith(f"{_SHM}/"):
                major, minor = (int(number, 16) for number in words[3].split(":"))
                found.add((os.makedev(major, minor), int(words[4])))
        found |= {_identity(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    return found - {_NO_FILE}


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return _NO_FILE
    return status.st_dev, status.st_ino


def _prctl(option: int, value: object) -> None:
    if sys.platform.startswith("linux"):
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(option, value, zero, zero, zero)
