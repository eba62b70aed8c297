"""Leaving nothing behind: processes, shared memory, signal handlers, multiprocessing's helpers."""

from __future__ import annotations

import gc
import os
import tempfile
import traceback
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, Final

import torch.multiprocessing

from dltutor.observation import errors, torch_internals
from dltutor.system.processes import (
    adopt_orphans,
    descendants,
    end_descendants,
    has_name,
    unlink_segments,
)

# With the sharing strategy file_system torch talks to its managers as long as this process lives.
# Without them every later loader raises "Broken pipe"; they end by themselves.
_STAYS: Final = b"torch_shm_manager"


@dataclass(frozen=True)
class Started:
    """What was started in a block.

    Args:
        pids: Of workers, and of whatever else: what they leave in `/dev/shm` is removed.
        iterators: Of loaders; references that do not keep them.
    """

    pids: set[int] = field(default_factory=set)
    iterators: list[weakref.ref[Any]] = field(default_factory=list)


@contextmanager
def nothing_left() -> Iterator[Started]:
    """Undo what the block did to this process and leave no child that was not there before.

    Children that lose their parent in the block become ours (on Linux), so that they are found.

    Yields:
        What was started in the block, to be filled in.
    """
    before = descendants(os.getpid())
    sigchld = torch_internals.sigchld()
    strategy = torch.multiprocessing.get_sharing_strategy()
    server, tracker = _forkserver(), _tracker()
    had_server, had_tracker = server._forkserver_pid is not None, tracker._pid is not None
    subreaper = adopt_orphans(True)
    started = Started()
    pids = started.pids
    try:
        yield started
    finally:
        # Queues and semaphores end with the iterators that held them. A collection takes a quarter
        # of a second in a process of many objects, so only one that is still alive is worth it.
        if any(iterator() is not None for iterator in started.iterators):
            gc.collect()
        kept = before | {pid for pid in descendants(os.getpid()) if has_name(pid, _STAYS)}
        pids |= end_descendants(spare=kept | {server._forkserver_pid, tracker._pid})
        if not had_server:
            server._stop()
        # In a process that multiprocessing spawned, the tracker is the parent's and has no pid.
        if not had_tracker and tracker._pid is not None:
            tracker._stop()
        unlink_segments(pids - before - {os.getpid()})
        adopt_orphans(subreaper)
        torch.multiprocessing.set_sharing_strategy(strategy)
        torch_internals.restore_sigchld(sigchld)


def close_interrupted_files(error: BaseException) -> None:
    """Close and remove the temporary file that an exception interrupted the making of.

    When a batch does not arrive, torch opens ten temporary files to see whether descriptors are
    left. Its SIGCHLD handler may raise just then: nobody knows of the descriptor any more.
    """
    for each in errors.chain(error):
        for frame, _ in traceback.walk_tb(errors.traceback_of(each)):
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


def _forkserver() -> Any:
    return forkserver._forkserver  # no public way to stop it


def _tracker() -> Any:
    return resource_tracker._resource_tracker
