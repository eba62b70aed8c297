"""Ending every process that descends from this one. For the keeper, which may import no torch."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from dltutor.system.process_memory import Proc, Psutil

_DIE_WITH_PARENT: Final = 1  # PR_SET_* of linux/prctl.h
_SUBREAPER: Final = 36
_PATIENCE: Final = 10.0  # seconds for killed processes to be gone
_TIDY: Final = 1.0  # seconds for those that tidy up after others
# They end by themselves once nobody is left to serve, and unlink what was left in /dev/shm.
_TIDIERS: Final = (b"multiprocessing.resource_tracker", b"torch_shm_manager")


def reader() -> Proc | Psutil:
    """Where the figures of processes come from on this system."""
    return Proc() if os.path.exists("/proc/self/stat") else Psutil()


def adopt_orphans() -> None:
    """Have descendants whose parent dies become children of this process (Linux)."""
    _prctl(_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent dies (Linux).

    Args:
        parent: The parent's pid, in case that it is dead already.
    """
    _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_descendants(workers: Iterable[int] = ()) -> None:
    """Kill all descendants, wait until they are gone, and remove what they left in `/dev/shm`.

    Args:
        workers: Pids of descendants that may be gone already.
    """
    processes = reader()
    ended = set(workers)
    started = time.monotonic()
    while time.monotonic() < started + _PATIENCE:
        tidied = time.monotonic() > started + _TIDY
        for pid in processes.descendants([os.getpid()]):
            if tidied or not _tidies_up(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                ended.add(pid)
        except ChildProcessError:  # none is left
            break
        time.sleep(0.005)
    _unlink_segments(ended)


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


def _tidies_up(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(name in command for name in _TIDIERS)


def _unlink_segments(pids: set[int]) -> None:
    # A worker killed between making a segment and unlinking it leaves `torch_PID_...` behind.
    for path in Path("/dev/shm").glob("torch_*"):
        owner = path.name.split("_")[1]
        if owner.isdigit() and int(owner) in pids:
            with suppress(OSError):
                path.unlink()


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
