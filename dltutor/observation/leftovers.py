"""Leaving nothing behind: processes, shared memory, signal handlers, multiprocessing's helpers."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, Final

import psutil
import torch.multiprocessing

from dltutor.observation import errors, torch_internals

_SHM: Final = Path("/dev/shm")
_SET_SUBREAPER: Final = 36  # linux/prctl.h
_GET_SUBREAPER: Final = 37
_ROUNDS: Final = 5  # of ending processes: one that is being ended may start another meanwhile


@contextmanager
def nothing_left() -> Iterator[set[int]]:
    """Undo what the block did to this process and leave no child that was not there before.

    Children that lose their parent in the block become ours (on Linux), so that they are found.

    Yields:
        A set for the pids of workers, and of whatever else was started in the block: what they
        leave in `/dev/shm` is removed.
    """
    before = set(_children())
    others = {os.getpid(), *(child.pid for child in before)}
    sigchld = torch_internals.sigchld()
    strategy = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    server, tracker = _forkserver(), _tracker()
    had_server, had_tracker = server._forkserver_pid is not None, tracker._pid is not None
    subreaper = _adopt_orphans(True)
    pids: set[int] = set()
    try:
        yield pids
    finally:
        gc.collect()  # queues and semaphores end with the iterators that held them
        kept = {server._forkserver_pid, tracker._pid}
        for _ in range(_ROUNDS):
            new = [c for c in _children() if c not in before and not _stays(c, kept)]
            if not new:
                break
            end_processes(new)
            pids |= {child.pid for child in new}
        if not had_server:
            server._stop()
        # In a process that multiprocessing spawned, the tracker is the parent's and has no pid.
        if not had_tracker and tracker._pid is not None:
            tracker._stop()
        _unlink_segments(pids - others)
        _adopt_orphans(subreaper)
        torch.multiprocessing.set_sharing_strategy(strategy)  # type: ignore[no-untyped-call]
        torch_internals.restore_sigchld(sigchld)


def end_processes(processes: Iterable[psutil.Process]) -> None:
    """Kill processes and their descendants, and reap those that are ours."""
    family = list(processes)
    for process in family.copy():
        with suppress(psutil.Error):
            family += process.children(recursive=True)
    pids = {process.pid for process in family}
    for process in family:
        with suppress(psutil.Error):
            process.kill()
    # multiprocessing must reap its own: it takes a child that somebody else reaped for alive.
    for child in multiprocessing.active_children():
        if child.pid in pids:
            child.join(timeout=5)
    psutil.wait_procs(family, timeout=5)


def close_interrupted_files(error: BaseException) -> None:
    """Close and remove the temporary file that an exception interrupted the making of.

    When a batch does not arrive, torch opens ten temporary files to see whether descriptors are
    left. Its SIGCHLD handler may raise just then: nobody knows of the descriptor any more.
    """
    for each in errors.chain(error):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if frame.f_code.co_filename == tempfile.__file__:
                names = (frame.f_locals.get(name) for name in ("file", "name"))
                _close_and_unlink({name for name in names if isinstance(name, str)})


def _close_and_unlink(paths: set[str]) -> None:
    for entry in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            if os.readlink(entry).removesuffix(" (deleted)") in paths:
                os.close(int(entry.name))
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def segments() -> set[str]:
    """The names of what lies in `/dev/shm`; empty where there is none."""
    return {entry.name for entry in os.scandir(_SHM)} if _SHM.is_dir() else set()


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _forkserver() -> Any:
    return forkserver._forkserver  # no public way to stop it


def _tracker() -> Any:
    return resource_tracker._resource_tracker


def _stays(process: psutil.Process, kept: set[int]) -> bool:
    # With the sharing strategy file_system torch talks to its managers as long as this process
    # lives. Without them every later loader raises "Broken pipe"; they end by themselves.
    try:
        return process.pid in kept or process.name() == "torch_shm_manager"
    except psutil.Error:
        return False


def _unlink_segments(pids: set[int]) -> None:
    # A worker killed between making a segment and unlinking it leaves `torch_PID_...` behind.
    # One that is in use here is a batch that the learner kept: torch unlinks it, and aborts this
    # process if it is gone by then.
    theirs = [name for name in segments() if _owner(name) in pids]
    used = Path("/proc/self/maps").read_text() if theirs else ""
    for name in theirs:
        if f"{_SHM}/{name}" not in used:
            (_SHM / name).unlink(missing_ok=True)


def _owner(segment: str) -> int:
    owner = segment.split("_")[1] if segment.startswith("torch_") else ""
    return int(owner) if owner.isdigit() else 0


def _adopt_orphans(on: bool) -> bool:
    """Become the parent of descendants that lose theirs, or not; returns what was set before."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    before = ctypes.c_int()
    libc.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_SET_SUBREAPER, int(on), 0, 0, 0)
    return bool(before.value)
