"""Leaving nothing behind: processes, shared memory, signal handlers, multiprocessing's helpers."""

from __future__ import annotations

import gc
import os
import re
import tempfile
import threading
import time
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
from dltutor.system import marks
from dltutor.system.processes import Process, descendants, end, has_name, is_running, known

# With the sharing strategy file_system torch talks to its managers as long as this process lives.
# Without them every later loader raises "Broken pipe"; they end by themselves.
_STAYS: Final = b"torch_shm_manager"
_HELPERS: Final = (b"resource_tracker", b"forkserver")
_LEAVING: Final = 1.0  # seconds
_NAMED: Final = re.compile("/dev/shm/(sem[.]|psm_)")  # what a resource tracker tidies up


@dataclass
class Started:
    """What was started in a block.

    Args:
        processes: The workers of loaders, to be ended with all that descends from them.
        iterators: Of loaders; references that do not keep them.
        mark: What the workers carry, and all that they start.
    """

    processes: set[Process] = field(default_factory=set)
    iterators: list[weakref.ref[Any]] = field(default_factory=list)
    mark: int = field(default_factory=marks.new)

    def still_running(self) -> int:
        """Count the processes that workers started and that are still there when they've left.

        They get a second to leave too. Multiprocessing's own helpers don't count.
        """
        until = time.monotonic() + _LEAVING
        while True:
            found = [pid for pid in marks.carriers(self.mark) if is_running(known(pid))]
            left = [pid for pid in found if not has_name(pid, _STAYS, *_HELPERS)]
            if not left or time.monotonic() > until:
                return len(left)
            time.sleep(0.02)

    def own(self, pid: int) -> None:
        """Take a worker for ours."""
        marks.put(self.mark, pid)
        self.processes.add(known(pid))


@contextmanager
def nothing_left() -> Iterator[Started]:
    """Undo what the block did to this process, and end the workers that were started in it.

    Whatever else this process, another thread of it, or another process has started lives on.

    Yields:
        What was started in the block, to be filled in.
    """
    sigchld = torch_internals.sigchld()
    strategy = torch.multiprocessing.get_sharing_strategy()
    server, tracker = _forkserver(), _tracker()
    had_server, had_tracker = server._forkserver_pid is not None, tracker._pid is not None
    started = Started()
    try:
        yield started
    finally:
        # Queues and semaphores end with the iterators that held them. A collection takes a quarter
        # of a second in a process of many objects, so only one that is still alive is worth it.
        if any(iterator() is not None for iterator in started.iterators):
            gc.collect()
        end(*started.processes, mark=started.mark, spare=(_STAYS,))
        if not had_server and not descendants(server._forkserver_pid or 0):
            server._stop()
        # In a process that multiprocessing spawned, the tracker is the parent's and has no pid.
        if not had_tracker and tracker._pid is not None and not _serves(tracker):
            tracker._stop()
        torch.multiprocessing.set_sharing_strategy(strategy)
        torch_internals.restore_sigchld(sigchld)


def _serves(tracker: Any) -> bool:
    # Whether the resource tracker has somebody left to serve: a process that holds the other end of
    # its pipe, without which it does not end, or a name of ours that it would unlink at its end.
    pipe = _link(Path(f"/proc/self/fd/{tracker._fd}"))
    for pid in descendants(os.getpid()) - {tracker._pid}:
        with suppress(OSError):  # gone
            if pipe in map(_link, Path(f"/proc/{pid}/fd").iterdir()):
                return True
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        return any(_NAMED.search(line) and not line.endswith("(deleted)") for line in maps)
    return threading.active_count() > 1  # no /proc: who uses it cannot be known


def _link(path: Path) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


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
