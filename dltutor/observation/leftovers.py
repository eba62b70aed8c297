"""End the processes that a run started, and restore the handlers and states that it changed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from typing import Any, Final

import numpy as np
import torch.multiprocessing

from dltutor.observation import torch_internals
from dltutor.system import marks
from dltutor.system.processes import (
    SHM_MANAGER,
    Process,
    descendants,
    end,
    files_of,
    has_name,
    identity,
    is_running,
    known,
    segments_of,
)

_HELPERS: Final = (b"resource_tracker", b"forkserver")
_LEAVING: Final = 1.0  # the most seconds to wait until the workers' descendants have ended
_NAMED: Final = ("sem.", "psm_")  # prefixes of the names that a resource tracker unlinks


@dataclass
class Started:
    """A register for the processes and iterators that a block starts, for `nothing_left` to use.

    Args:
        processes: The loaders' workers, which `nothing_left` ends with all their descendants.
        iterators: Weak references to each iterator with workers that the training loop makes from
            another loader, such as one for validation, and to that loader.
        mark: The mark that the workers and everything they start carry (see
            `dltutor.system.marks`).
    """

    processes: set[Process] = field(default_factory=set)
    iterators: list[tuple[weakref.ref[Any], weakref.ref[Any]]] = field(default_factory=list)
    mark: int = field(default_factory=marks.new)

    def still_running(self) -> int:
        """Count the processes that workers started and that still run after a wait of up to 1 s.

        Helper processes of multiprocessing and torch don't count.
        """
        until = time.monotonic() + _LEAVING
        while True:
            found = [pid for pid in marks.carriers(self.mark) if is_running(known(pid))]
            left = [pid for pid in found if not has_name(pid, SHM_MANAGER, *_HELPERS)]
            if not left or time.monotonic() > until:
                return len(left)
            time.sleep(0.02)

    def own(self, iterator: Any) -> None:
        """Register an iterator's workers, so that `nothing_left` ends them."""
        for worker in torch_internals.workers_of(iterator):
            self._own(worker.pid)

    def own_started(self, error: BaseException) -> None:
        """Register the workers that an iterator had started when `error` interrupted the start."""
        self.own(torch_internals.iterator_in(error))
        self._own(torch_internals.starting_pid(error))

    def _own(self, pid: int | None) -> None:
        if pid is not None:
            marks.put(self.mark, pid)
            self.processes.add(known(pid))


@contextmanager
def nothing_left() -> Iterator[Started]:
    """Restore this process's state after a block, and end the workers that the block registers.

    Also end what those workers started, except torch's shared-memory managers. End
    multiprocessing's helpers that the block started, unless they're in use. Other processes keep
    running.

    Restore torch's sharing strategy and the SIGCHLD handler. Restore the random states, because
    torch draws the workers' seeds from the global random state, and a sampler without a generator
    draws its order from that state. If no start method was set before, unset the default, which
    making the first queue sets for good. Keep any other method that the block chose.
    """
    python, torchs, numpys = random.getstate(), torch.get_rng_state(), np.random.get_state()
    chosen = multiprocessing.get_start_method(allow_none=True)
    sigchld = torch_internals.sigchld()
    strategy = torch.multiprocessing.get_sharing_strategy()
    # There is no public way to stop the fork server and the resource tracker.
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    had_server, had_tracker = server._forkserver_pid is not None, tracker._pid is not None
    started = Started()
    try:
        yield started
    finally:
        # Python frees queues and semaphores together with the iterators that hold them. So collect
        # garbage if an iterator is still alive, but only then, because a collection is slow in a
        # process with many objects.
        if any(iterator() is not None for iterator, _ in started.iterators):
            gc.collect()
        end(*started.processes, mark=started.mark, spare=(SHM_MANAGER,))
        if not had_server and not descendants(server._forkserver_pid or 0):
            server._stop()
        # If multiprocessing spawned this process, the tracker is our parent's, and its pid is None.
        if not had_tracker and tracker._pid is not None and not _serves(tracker):
            tracker._stop()
        torch.multiprocessing.set_sharing_strategy(strategy)
        torch_internals.restore_sigchld(sigchld)
        random.setstate(python)
        torch.set_rng_state(torchs)
        np.random.set_state(numpys)
        # If the start method isn't the default, the loop has chosen it, so keep it.
        default = multiprocessing.get_all_start_methods()[0]
        if chosen is None and multiprocessing.get_start_method(allow_none=True) == default:
            multiprocessing.set_start_method(None, force=True)


def _serves(tracker: Any) -> bool:
    # The resource tracker is still needed if another descendant holds the tracker's pipe, or if
    # this process uses a file in /dev/shm that the tracker would unlink when it ends.
    if not os.path.isdir("/proc/self"):
        return threading.active_count() > 1  # another thread may use the tracker
    pipe = identity(f"/proc/self/fd/{tracker._fd}")
    others = descendants(os.getpid()) - {tracker._pid}
    return any(pipe in files_of(pid) for pid in others) or bool(segments_of(os.getpid(), _NAMED))
