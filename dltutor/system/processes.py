"""Find the processes that we started, end them, and remove what they left behind in `/dev/shm`.

Besides dltutor, this module needs only the standard library, and psutil if there is no `/proc`.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from dltutor.system.marks import carriers, carries
from dltutor.system.process_memory import Proc, Psutil, reader

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG in linux/prctl.h
_SET_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER in linux/prctl.h
_GET_SUBREAPER: Final = 37  # PR_GET_CHILD_SUBREAPER in linux/prctl.h

_PATIENCE: Final = 10.0  # give up after this many seconds in which no killed process ended
_STOPPING: Final = 1.0  # seconds to wait for a process's threads to stop after SIGSTOP
_CLEANING: Final = 4.0  # seconds to wait for _CLEANERS to end, enough even on a busy machine
SHM_MANAGER: Final = b"torch_shm_manager"
"""A word in the command line of a shared-memory manager, which torch starts for `file_system`.

With that sharing strategy, main writes to a manager, even to one that a worker started, for as long
as main has a batch from it. If the manager is gone by then, torch aborts main.
"""
# Helper processes of multiprocessing and torch. When the processes that a helper serves are gone,
# the helper unlinks what they left in /dev/shm, and ends.
_CLEANERS: Final = (b"multiprocessing.resource_tracker", SHM_MANAGER)
_SHM: Final = Path("/dev/shm")
_SEMAPHORE: Final = "sem."  # what the names of semaphores begin with in /dev/shm
_NAMING: Final = 1.0  # the most seconds that a process gets to remove the names of semaphores
_NO_FILE: Final = (0, 0)
_NEVER: Final = -1.0  # the start time of a process that is gone


class Process(NamedTuple):
    """A process, identified by pid and start time, because the system reuses pids.

    The start time is in clock ticks since boot from `/proc`, or in Unix time from psutil.
    """

    pid: int
    start: float


def adopt_orphans(on: bool = True) -> bool:
    """Set whether orphaned descendants become children of this process (Linux).

    Return the previous setting. Children don't inherit this setting.
    """
    before = ctypes.c_int()
    _prctl(_GET_SUBREAPER, ctypes.byref(before))
    _prctl(_SET_SUBREAPER, ctypes.c_ulong(on))
    return bool(before.value)


def fork() -> int:
    """Fork this process, and return 0 in the child, or the child's pid in this process.

    The child keeps the state of the module `random`, so two forks draw the same random numbers.
    After a plain `os.fork`, Python seeds `random` again in the child (`random.py`, last lines).
    """
    state = random.getstate()
    pid = os.fork()
    if pid == 0:
        random.setstate(state)
    return pid


def die_with_parent(parent: int) -> None:
    """Have Linux kill this process when its parent ends, or exit if the parent has ended already.

    `parent` is the parent's pid. Linux also kills this process if only the parent's thread that
    forked this process ends.
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
    """Return whether a process exists and has one of these words in its command line."""
    command = _figures().command(pid)
    return any(name in command for name in names)


def known(pid: int) -> Process:
    """Return the process with this pid, or if it's gone, a Process that equals no real one."""
    birth = _figures().birth(pid)
    return Process(pid, birth[0] if birth else _NEVER)


@cache  # making a new reader for each of thousands of processes would be slow
def _figures() -> Proc | Psutil:
    return reader()


def end(*processes: Process, mark: int = 0, spare: Iterable[bytes] = ()) -> set[Process]:
    """Kill processes that you started and all their descendants, and wait until they end.

    Give up after 10 s in which none of these processes ended.

    Stop each process before killing it, so that it can't start another process in between. With the
    start method fork, multiprocessing makes a file for a semaphore and then removes the file's
    name. So if a process stops in between, let it go on for a moment, because otherwise the name
    would stay. Resource trackers and torch's shared-memory managers clean up after other processes,
    so they get 4 s to end by themselves once those other processes are gone. Of all these
    processes, reap this process's own children, except the children that multiprocessing started,
    because multiprocessing reaps those itself.

    Also remove the batches in `/dev/shm` that one of the processes had open or mapped, unless this
    process still uses them. A batch's name alone doesn't tell which process made the batch, because
    with `docker --ipc=host`, the pid in the name may belong to another container's process.

    Args:
        processes: The processes to kill, which mustn't include this process.
        mark: If not 0, also kill every other process that carries this mark, orphans included (see
            `dltutor.system.marks`).
        spare: Words that protect a process whose command line contains one of them, unless it's
            one of `processes`. The children of a protected process end anyway.

    Returns:
        The processes that have ended, including any that had ended before the call.
    """
    return _end({*processes}, set(), mark, tuple(spare))


def end_descendants(mark: int = 0) -> set[Process]:
    """Kill this process's descendants, and return those that have ended, as `end` does."""
    return _end(set(), {os.getpid()}, mark, ())


def _end(found: set[Process], heads: set[int], mark: int, spare: tuple[bytes, ...]) -> set[Process]:
    found, spared = {*found}, {known(os.getpid())}
    stopped: dict[Process, float] = {}  # process -> when we last stopped it
    first: dict[Process, float] = {}  # process -> when we first stopped it
    shared: dict[str, tuple[int, int]] = {}
    progress = served = time.monotonic()
    most = 0
    while True:
        new = _family(found | spared, heads, mark) - found - spared
        spared |= {each for each in new if spare and has_name(each.pid, *spare)}
        found |= new - spared
        living = {each for each in found if is_running(each)} | _reap(found)
        if len(found) - len(living) > most:  # more have ended, so wait longer for the rest
            most, progress = len(found) - len(living), time.monotonic()
        # If a parent dies while we list its family, only the next look finds its child. So go on
        # until a look finds no new process.
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
            if each not in stopped:
                stopped[each] = now
                first.setdefault(each, now)
                _send(each, signal.SIGSTOP)
            elif now < first[each] + _NAMING and _has_semaphores(each.pid):
                del stopped[each]
                _send(each, signal.SIGCONT)
            else:
                shared |= segments_of(each.pid)
                _send(each, signal.SIGKILL)
        time.sleep(0.005)


def _has_semaphores(pid: int) -> bool:
    # Return whether a process uses semaphores with names that this process doesn't use.
    found = segments_of(pid, _SEMAPHORE)
    return bool(found) and bool(found.keys() - segments_of(os.getpid(), _SEMAPHORE).keys())


def _family(members: set[Process], heads: set[int], mark: int) -> set[Process]:
    # Return the descendants of `members` and `heads` (pids), and the processes that carry the mark.
    # Between two reads, a pid can pass to another process, so read parent and start time together,
    # and read both again after the mark.
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
    """Return whether a process with this pid and start time exists and isn't a zombie."""
    return is_alive(process.pid) and known(process.pid) == process


def _send(process: Process, number: int) -> None:
    # Use a pidfd if the system has pidfds (Linux 5.3 and later), because without one, another
    # process can get the pid between our check and the signal.
    descriptor = None
    with suppress(AttributeError, OSError):  # a container may forbid pidfds
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
    # A process that has just started may have no command line yet, so it may be a cleaner, too.
    return not command or any(name in command for name in _CLEANERS)


def _reap(processes: set[Process]) -> set[Process]:
    # Reap our own children among these processes, and return the children that we can't reap yet,
    # because they're running, or are dead but have threads that are still ending. Don't reap
    # multiprocessing's children, because multiprocessing would think that they're still running.
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
    """Return the names of the files in `/dev/shm`, or an empty set if there is no `/dev/shm`."""
    return {entry.name for entry in os.scandir(_SHM)} if _SHM.is_dir() else set()


def segments_of(pid: int, prefix: str | tuple[str, ...] = "torch_") -> dict[str, tuple[int, int]]:
    """Return the files with a name in `/dev/shm` that a process has open or mapped.

    torch puts a batch's tensors in files named `torch_PID_...`, and usually removes the name right
    away. A name stays if the worker dies before that. With the sharing strategy `file_system`, a
    name stays for as long as the batch exists.

    Returns:
        Name -> device and inode, for the names that begin with `prefix`. If the process is gone or
        we may not inspect it, the dict is empty.
    """
    named = {identity(_SHM / name): name for name in segments() if name.startswith(prefix)}
    if not named:
        return {}
    return {named[file]: file for file in files_of(pid) & named.keys()}


def unlink_segments(owned: Mapping[str, tuple[int, int]]) -> None:
    """Remove the files that `segments_of` returned, unless another file has the name by now.

    Keep a file that this process still uses, because torch unlinks the file itself later, and
    aborts the process if the file is gone by then.
    """
    used = files_of(os.getpid()) if owned else set()
    for name, file in owned.items():
        if file not in used and identity(_SHM / name) == file:
            with suppress(OSError):  # the file is gone or belongs to another user
                (_SHM / name).unlink()


def held_segments(pids: Iterable[int]) -> dict[int, int]:
    """Return the batches in `/dev/shm` that these processes have open (inode -> size in bytes).

    By default, torch unlinks a batch's file right after making it, so the batch has no name to look
    for. But the worker has the file open until main fetches the batch, and main has the file open
    afterward. The size of all of `/dev/shm` would include other programs' files.
    """
    found = {}
    for pid in pids:
        with suppress(OSError):  # the process is gone
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # the file is closed by now
                    if os.readlink(descriptor).startswith(f"{_SHM}/torch_"):
                        file = descriptor.stat()
                        found[file.st_ino] = file.st_size
    return found


def files_of(pid: int) -> set[tuple[int, int]]:
    """Return the files that a process has open, and the files in `/dev/shm` that it has mapped.

    The set has each file's device and inode. If the process is gone or we may not inspect it, the
    set is empty.
    """
    found = set()
    with suppress(OSError):  # the process is gone or belongs to another user
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            words = line.split()
            if len(words) > 5 and words[5].startswith(f"{_SHM}/"):
                major, minor = (int(number, 16) for number in words[3].split(":"))
                found.add((os.makedev(major, minor), int(words[4])))
        found |= {identity(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    return found - {_NO_FILE}


def identity(path: str | Path) -> tuple[int, int]:
    """Return a file's device and inode, or (0, 0) if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return _NO_FILE
    return status.st_dev, status.st_ino


def _prctl(option: int, value: object) -> None:
    if sys.platform.startswith("linux"):
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(option, value, zero, zero, zero)
