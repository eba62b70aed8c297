"""Read, from the main process, what a running loader has in memory."""

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

from dltutor.tables import MB

_BUSY: Final = 10.0  # seconds that a reading waits for a worker to become idle
_Reading = TypeVar("_Reading")


class _Starting:
    """Stand-in for a worker that is being spawned, to which a tensor is sent by its descriptor."""

    def DupFd(self, fd: int) -> int:
        return fd

    def duplicate_for_child(self, fd: int) -> int:
        return fd


@contextmanager
def as_for_spawned() -> Iterator[None]:
    """Pickle in the block as for a worker that is being spawned."""
    context.set_spawning_popen(_Starting())  # type: ignore[arg-type]  # what it uses of a Popen
    try:
        yield
    finally:
        context.set_spawning_popen(None)


def sent_to_spawned(dataset: object) -> int:
    """Count the bytes that a spawned worker is sent for a dataset, without those in `/dev/shm`."""
    with as_for_spawned():
        return len(ForkingPickler.dumps(dataset))


class Gauge:
    """Reads the memory of the workers that start, and of the batches that arrive, from now on."""

    def __init__(self) -> None:
        gc.collect()  # a collection that is due would run in the workers: see `gc_dirties_pages`
        self._others = set(multiprocessing.active_children())
        self._segments = self._held()

    def private(self) -> float:
        """MB that belong to one worker alone (USS), on average; without workers: to main."""
        sizes = self.each() or [_uss(os.getpid()) / MB]
        return sum(sizes) / len(sizes)

    def each(self) -> list[float]:
        """MB that belong to each worker alone, W0 first.

        A worker is read when it is idle between two batches, because in the middle of a batch its
        memory varies by a few MB. It soon is idle, because nothing takes a batch while we wait.
        """
        workers = sorted(self._workers())
        return [_when_idle([worker], partial(_uss, worker)) / MB for worker in workers]

    def shared(self) -> float:
        """MB of tensors in shared memory: sent and not fetched yet, or fetched and kept.

        Read when all workers are idle. A busy one may still hold a batch that main has fetched.
        """
        new = _when_idle(self._workers(), self._held)
        return sum(new[inode] for inode in new.keys() - self._segments.keys()) / MB

    def _workers(self) -> list[int]:
        # multiprocessing also knows the fork server's, which aren't children of this process.
        workers = set(multiprocessing.active_children()) - self._others
        return [worker.pid for worker in workers if worker.pid is not None]

    def _held(self) -> dict[int, int]:
        # A segment has lost its name and has only descriptors: the worker's that made it, until
        # main fetches it, and then main's.
        sizes = {}
        for pid in (os.getpid(), *self._workers()):
            for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
                try:
                    if os.readlink(descriptor).startswith("/dev/shm/torch_"):
                        segment = descriptor.stat()
                        sizes[segment.st_ino] = segment.st_size
                except OSError:  # it was closed since we listed it
                    continue
        return sizes


def _when_idle(workers: Sequence[int], read: Callable[[], _Reading]) -> _Reading:
    until = time.monotonic() + _BUSY
    while True:
        before = [_work_done(worker) for worker in workers]
        reading = read()
        idle = None not in before and before == [_work_done(worker) for worker in workers]
        if idle or time.monotonic() > until:
            return reading
        time.sleep(0.002)


def _work_done(pid: int) -> list[str] | None:
    # What a process's threads have done so far, as Linux counts it; None if one is running.
    try:
        threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:  # a thread ended since we listed it
        return None
    return None if any(re.search("State:\t[RD]", thread) for thread in threads) else threads


def _uss(pid: int) -> int:
    size: int = psutil.Process(pid).memory_full_info().uss
    return size


def growth(loader: DataLoader[Any], epochs: int = 1) -> float:
    """Run some epochs, and see how much the workers grow.

    Returns:
        By how many MB the average worker grew at most, after all of them had delivered their first
        batch. A spawned one may still be importing torch when another delivers its first.
    """
    gauge = Gauge()
    private = [gauge.private() for _ in range(epochs) for _batch in loader]
    # Batches arrive in turn, one from each worker.
    started = private[max(loader.num_workers - 1, 0) :]
    return max(started) - started[0]


def no_proc() -> str | None:
    """Say why segments can't be read here, or None."""
    return None if Path("/proc/self/fd").is_dir() else "this machine has no /proc/PID/fd"
