"""Find the processes that we started, end them, and remove what they left in `/dev/shm`.

This module imports only the standard library, and psutil where there is no `/proc`.
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

_PATIENCE: Final = 10.0  # seconds in which at least one more of the killed processes must be gone
_STOPPING: Final = 1.0  # seconds for all threads of a process to stop after SIGSTOP
_CLEANING: Final = 4.0  # seconds for the cleaners, which need them on a busy machine
# When the processes that they serve are gone, these unlink what is left in /dev/shm, and end.
_CLEANERS: Final = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
_SHM: Final = Path("/dev/shm")
_NO_FILE: Final = (0, 0)
_NEVER: Final = -1.0  # the start of a process that is gone


class Process(NamedTuple):
    """A process, identified by pid and start time, because the system reuses pids.

    Args:
        pid: Its pid.
        start: When it started, in the system's own unit.
    """

    pid: int
    start: float


def adopt_orphans(on: bool = True) -> bool:
    """Set whether orphaned descendants become children of this process (Linux).

    Children don't inherit this setting.

    Returns:
        The setting before; False on systems that don't have it.
    """
    before = ctypes.c_int()
    _prctl(_GET_SUBREAPER, ctypes.byref(before))
    _prctl(_SET_SUBREAPER, ctypes.c_ulong(on))
    return bool(before.value)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent dies (Linux).

    To the kernel, the parent is the thread that forked this process.

    Args:
        parent: The parent's pid. If the parent is dead already, this process exits.
    """
    _prctl(_DIE_WITH_PARENT, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def descendants(pid: int) -> set[int]:
    """Return the children of a process, their children, and so on, including zombies."""
    return _figures().descendants([pid])


def is_alive(pid: int) -> bool:
    """Return whether the process exists and isn't a zombie."""
    return _figures().is_alive(pid)


def has_name(pid: int, *names: bytes) -> bool:
    """Return whether a process's command line contains one of these words; False if it's gone."""
    command = _figures().command(pid)
    return any(name in command for name in names)


def known(pid: int) -> Process:
    """Return the process that has this pid now. If it's gone, the result equals no live process."""
    birth = _figures().birth(pid)
    return Process(pid, birth[0] if birth else _NEVER)


@cache  # because with thousands of processes, making a reader for each look takes long
def _figures() -> Proc | Psutil:
    return reader()


def end(*processes: Process, mark: int = 0, spare: Iterable[bytes] = ()) -> set[Process]:
    """Kill processes that you started and all their descendants, and wait until they're gone.

    It gives up if none of them has exited for 10 s.

    It stops each process before it kills it, so that the process can't start another in between.
    Resource trackers and torch's shared-memory managers clean up after other processes, so they get
    4 s to end by themselves once those are gone. It reaps children of this process, except those
    that multiprocessing started, because multiprocessing reaps its own.

    It also removes the batches in `/dev/shm` that one of the processes had open or mapped. A name
    alone doesn't say who owns a batch (with `docker --ipc=host`, a pid there isn't a pid here).

    Args:
        processes: The processes; not this one.
        mark: Also end every process that carries this mark, orphans included (see
            `dltutor.system.marks`). 0 for no mark.
        spare: Leave a process alone if its command line contains one of these words. Its children
            are ended.

    Returns:
        The processes that are gone, including those that had ended before.
    """
    return _end({*processes}, set(), mark, tuple(spare))


def end_descendants(mark: int = 0) -> set[Process]:
    """End all descendants of this process and all that carry the mark, as `end` does."""
    return _end(set(), {os.getpid()}, mark, ())


def _end(found: set[Process], heads: set[int], mark: int, spare: tuple[bytes, ...]) -> set[Process]:
    found, spared = {*found}, {known(os.getpid())}
    stopped: dict[Process, float] = {}  # process -> when we stopped it
    shared: dict[str, tuple[int, int]] = {}
    progress = served = time.monotonic()
    most = 0
    while True:
        new = _family(found | spared, heads, mark) - found - spared
        spared |= {each for each in new if spare and has_name(each.pid, *spare)}
        found |= new - spared
        living = {each for each in found if is_running(each)} | _reap(found)
        if len(found) - len(living) > most:  # thousands of processes may take longer
            most, progress = len(found) - len(living), time.monotonic()
        # If a parent dies while its family is listed, its child is found only at the next look.
        if time.monotonic() > progress + _PATIENCE or not (living or new - spared):
            unlink_segments(shared)
            return found - living
        now = time.monotonic()
        ready = {
            each
            for each in living & stopped.keys()
            if _figures().has_stopped(each.pid) or now > stopped[each] + _STOPPING
        }
        running = living - stopped.keys()
        ready |= {each for each in running if not _may_clean(_figures().command(each.pid))}
        if ready or running != living:
            served = now
        elif now > served + _CLEANING:
            ready = living
        for each in ready:
            if each in stopped:
                shared |= segments_of(each.pid)
            _send(each, signal.SIGKILL if each in stopped else signal.SIGSTOP)
        stopped |= {each: now for each in ready - stopped.keys()}
        time.sleep(0.005)


def _family(members: set[Process], heads: set[int], mark: int) -> set[Process]:
    # Their descendants, and what carries the mark. Another process can have a pid when we look at
    # it again, so parent and start are read together, and again after the mark.
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
    """Return whether this process exists, with this start time, and isn't a zombie."""
    return is_alive(process.pid) and known(process.pid) == process


def _send(process: Process, number: int) -> None:
    # Use a pidfd if there are any (Linux 5.3), because another process can get the pid between our
    # check and the kill.
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


def _may_clean(command: bytes) -> bool:
    # A process that was just started has no command line yet, and may be a resource tracker.
    return not command or any(name in command for name in _CLEANERS)


def _reap(processes: set[Process]) -> set[Process]:
    # Return the children that haven't ended: a dead one may still have threads that are ending.
    # multiprocessing must reap its own children, because it believes that a child that we reaped is
    # still alive.
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
    """Return the names of the files in `/dev/shm`; empty if there is no `/dev/shm`."""
    return {entry.name for entry in os.scandir(_SHM)} if _SHM.is_dir() else set()


def segments_of(pid: int) -> dict[str, tuple[int, int]]:
    """Return the batches in `/dev/shm` that a process has open or mapped and that have a name.

    A worker that dies between making a segment and unlinking it leaves `torch_PID_...` behind. With
    the sharing strategy `file_system`, each batch has a name for as long as it lives.

    Returns:
        Their device and inode, by name; empty if the process is gone or can't be looked at.
    """
    named = {_identity(_SHM / name): name for name in segments() if name.startswith("torch_")}
    if not named:
        return {}
    return {named[file]: file for file in files_of(pid) & named.keys()}


def unlink_segments(owned: Mapping[str, tuple[int, int]]) -> None:
    """Remove batches from `/dev/shm`, unless the name belongs to another file by now.

    It keeps a batch that this process still uses: torch unlinks such a batch itself later, and
    aborts the process if the file is gone by then.

    Args:
        owned: What `segments_of` returned.
    """
    used = files_of(os.getpid()) if owned else set()
    for name, file in owned.items():
        if file not in used and _identity(_SHM / name) == file:
            with suppress(OSError):  # gone, or another user's
                (_SHM / name).unlink()


def files_of(pid: int) -> set[tuple[int, int]]:
    """Return the files that a process has open, and those in its `/dev/shm` that it has mapped.

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
