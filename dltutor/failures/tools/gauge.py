"""Read how much memory a running loader uses, from the main process."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil
from torch.utils.data import DataLoader

from dltutor.system.processes import held_segments
from dltutor.tables import MB

_LONGEST_WAIT: Final = 10.0  # the most seconds that a reading waits for idle workers
_Reading = TypeVar("_Reading")


class _Starting:
    """A stand-in for a spawned worker, so that torch pickles a tensor as a descriptor's number."""

    def DupFd(self, fd: int) -> int:
        return fd

    def duplicate_for_child(self, fd: int) -> int:
        return fd


@contextmanager
def as_for_spawned() -> Iterator[None]:
    """Pickle objects in this block the way main pickles them for a worker that it spawns."""
    context.set_spawning_popen(_Starting())  # type: ignore[arg-type]  # has what pickling needs
    try:
        yield
    finally:
        context.set_spawning_popen(None)


def sent_to_spawned(dataset: object) -> int:
    """Return the bytes in a dataset's pickle for a spawned worker. Shared memory doesn't count."""
    with as_for_spawned():
        return len(ForkingPickler.dumps(dataset))


class Gauge:
    """A gauge for the memory of workers that start after the gauge exists, and of their batches."""

    def __init__(self) -> None:
        gc.collect()  # so that no collection is almost due in a new worker (see `gc_dirties_pages`)
        self._others = set(multiprocessing.active_children())
        self._segments = self._held()

    def private(self) -> float:
        """Return the MB private to the average worker (USS), or to main if there are no workers."""
        sizes = self.each() or [_uss(os.getpid()) / MB]
        return sum(sizes) / len(sizes)

    def each(self) -> list[float]:
        """Return the MB private to each worker (USS), in the order of the workers' pids.

        We wait up to 10 s for each worker to be idle, because in the middle of a batch, a worker's
        memory varies by a few MB. A worker becomes idle soon, because the loop takes no batch while
        we wait.
        """
        workers = sorted(self._workers())
        return [_when_idle([worker], partial(_uss, worker)) / MB for worker in workers]

    def shared(self) -> float:
        """Return the MB of the workers' tensors in shared memory, even if main has fetched them.

        We wait, for at most 10 s, until all workers are idle, because a busy worker may still hold
        a batch that main has already fetched.
        """
        new = _when_idle(self._workers(), self._held)
        return sum(new[inode] for inode in new.keys() - self._segments.keys()) / MB

    def _workers(self) -> list[int]:
        # active_children() also lists the fork server's workers, which psutil's children() misses.
        workers = set(multiprocessing.active_children()) - self._others
        return [worker.pid for worker in workers if worker.pid is not None]

    def _held(self) -> dict[int, int]:
        return held_segments([os.getpid(), *self._workers()])


def _when_idle(workers: Sequence[int], read: Callable[[], _Reading]) -> _Reading:
    until = time.monotonic() + _LONGEST_WAIT
    while True:
        before = [_work_done(worker) for worker in workers]
        reading = read()
        idle = None not in before and before == [_work_done(worker) for worker in workers]
        if idle or time.monotonic() > until:
            return reading
        time.sleep(0.002)


def _work_done(pid: int) -> list[str] | None:
    # Return the status of each thread, which changes whenever the thread runs. If a thread is
    # running, waits for a disk, or has just ended, return None.
    try:
        threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:  # a thread has ended since we listed it
        return None
    return None if any(re.search("State:\t[RD]", thread) for thread in threads) else threads


def _uss(pid: int) -> int:
    size: int = psutil.Process(pid).memory_full_info().uss
    return size


def growth(loader: DataLoader[Any], epochs: int = 1) -> float:
    """Run `epochs` epochs, and measure how much the workers grow.

    Returns:
        The most MB by which the average worker (main, if there are no workers) grew after all
        workers had delivered a batch. Until then, a spawned worker may still be importing torch.
    """
    gauge = Gauge()
    private = [gauge.private() for _ in range(epochs) for _batch in loader]
    # Batches arrive round-robin, so each worker has delivered one after `num_workers` batches.
    started = private[max(loader.num_workers - 1, 0) :]
    return max(started) - started[0]


def no_proc() -> str | None:
    """Return why this machine can't list shared memory segments, or None if it can."""
    return None if Path("/proc/self/fd").is_dir() else "this machine has no /proc/PID/fd"
