"""Leaving everything as it was: processes, shared memory, signal handlers, random states."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch.multiprocessing

from dltutor.observation import torch_internals
from dltutor.system import marks
from dltutor.system.processes import Process, descendants, end, has_name, is_running, known

# With the sharing strategy file_system, torch talks to its managers as long as this process lives.
# Without them, every later loader raises "Broken pipe". They end by themselves.
_STAYS: Final = b"torch_shm_manager"
_HELPERS: Final = (b"resource_tracker", b"forkserver")
_LEAVING: Final = 1.0  # seconds
_NAMED: Final = re.compile("/dev/shm/(sem[.]|psm_)")  # what a resource tracker tidies up


@dataclass
class Started:
    """What was started in a block.

    Args:
        processes: The workers of loaders, to be ended with all that descends from them.
        iterators: Weak references to iterators of the loop's own loaders.
        mark: What the workers carry, and all that they start.
    """

    processes: set[Process] = field(default_factory=set)
    iterators: list[weakref.ref[Any]] = field(default_factory=list)
    mark: int = field(default_factory=marks.new)

    def still_running(self) -> int:
        """Count the processes that outlived the workers that started them.

        They get a second to end, too. Multiprocessing's own helpers don't count.
        """
        until = time.monotonic() + _LEAVING
        while True:
            found = [pid for pid in marks.carriers(self.mark) if is_running(known(pid))]
            left = [pid for pid in found if not has_name(pid, _STAYS, *_HELPERS)]
            if not left or time.monotonic() > until:
                return len(left)
            time.sleep(0.02)

    def own(self, iterator: Any) -> None:
        """Take the workers of an iterator for ours."""
        for worker in torch_internals.workers_of(iterator):
            self._own(worker.pid)

    def own_started(self, error: BaseException) -> None:
        """Take for ours what was started when an exception came in the making of an iterator."""
        self.own(torch_internals.iterator_in(error))
        self._own(torch_internals.half_started(error))

    def _own(self, pid: int | None) -> None:
        if pid is not None:
            marks.put(self.mark, pid)
            self.processes.add(known(pid))


@contextmanager
def nothing_left() -> Iterator[Started]:
    """Undo what the block did to this process, and end the workers that were started in it.

    Whatever else this process, another thread of it, or another process has started lives on.

    torch draws the seeds of workers, and a sampler without a generator its order, from the global
    random state. Making the first queue fixes how this process starts others, for good. So the
    random states and the choice of a start method are put back, too.

    Yields:
        What was started in the block, to be filled in.
    """
    python, torchs, numpys = random.getstate(), torch.get_rng_state(), np.random.get_state()
    chosen = multiprocessing.get_start_method(allow_none=True)
    sigchld = torch_internals.sigchld()
    strategy = torch.multiprocessing.get_sharing_strategy()
    # There is no public way to stop them.
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    had_server, had_tracker = server._forkserver_pid is not None, tracker._pid is not None
    started = Started()
    try:
        yield started
    finally:
        # Queues and semaphores end with the iterators that held them. A collection takes a quarter
        # of a second in a process with many objects, so it's done only if one is still alive.
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
        random.setstate(python)
        torch.set_rng_state(torchs)
        np.random.set_state(numpys)
        # A method that your loop has chosen stays: it is not the default one.
        default = multiprocessing.get_all_start_methods()[0]
        if chosen is None and multiprocessing.get_start_method(allow_none=True) == default:
            multiprocessing.set_start_method(None, force=True)


def _serves(tracker: Any) -> bool:
    # The resource tracker is still needed if a process holds the other end of its pipe, or if we
    # have a name in /dev/shm mapped that it would unlink when it ends.
    pipe = _link(Path(f"/proc/self/fd/{tracker._fd}"))
    for pid in descendants(os.getpid()) - {tracker._pid}:
        with suppress(OSError):  # gone
            if pipe in map(_link, Path(f"/proc/{pid}/fd").iterdir()):
                return True
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        return any(_NAMED.search(line) and not line.endswith("(deleted)") for line in maps)
    return threading.active_count() > 1  # without /proc, we can't know who uses it


def _link(path: Path) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""
