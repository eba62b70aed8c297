"""A Gauge reads, from the main process, what a running loader has in memory."""

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

_BUSY: Final = 10.0  # seconds that a reading waits for a worker to rest
_Reading = TypeVar("_Reading")


class _Starting:
    """Stands in for a worker that is being spawned: a tensor is then sent by its descriptor."""

    def DupFd(self, fd: int) -> int:
        return fd

    def duplicate_for_child(self, fd: int) -> int:
        return fd


@contextmanager
def as_for_spawned() -> Iterator[None]:
    """Pickling in the block is done as for a worker that is being spawned."""
    context.set_spawning_popen(_Starting())  # type: ignore[arg-type]  # what it uses of a Popen
    try:
        yield
    finally:
        context.set_spawning_popen(None)


def sent_to_spawned(dataset: object) -> int:
    """The bytes that a spawned worker is sent for a dataset; what is in `/dev/shm` is not."""
    with as_for_spawned():
        return len(ForkingPickler.dumps(dataset))


class Gauge:
    """Reads the memory of the workers that start, and of the batches that come, from now on."""

    def __init__(self) -> None:
        gc.collect()  # one that is due would run in the workers: see `gc_dirties_pages`
        self._others = set(multiprocessing.active_children())
        self._segments = self._held()

    def private(self) -> float:
        """MB that belong to one worker alone (USS), on average; without workers: to main."""
        sizes = self.each() or [_uss(os.getpid()) / MB]
        return sum(sizes) / len(sizes)

    def each(self) -> list[float]:
        """MB that belong to each worker alone, W0 first.

        A worker is read when it rests between two batches: in the middle of one it has some
        megabytes more or less, as luck has it. Nobody takes a batch meanwhile, so it soon rests.
        """
        workers = sorted(self._workers())
        return [_at_rest([worker], partial(_uss, worker)) / MB for worker in workers]

    def shared(self) -> float:
        """MB of tensors in shared memory: sent and not fetched yet, or fetched and kept.

        Read when all workers rest. One that is busy may not have come to letting go of a batch that
        main has had already.
        """
        new = _at_rest(self._workers(), self._held)
        return sum(new[inode] for inode in new.keys() - self._segments.keys()) / MB

    def _workers(self) -> list[int]:
        # Also under forkserver, where the workers are no children of this process.
        workers = set(multiprocessing.active_children()) - self._others
        return [worker.pid for worker in workers if worker.pid is not None]

    def _held(self) -> dict[int, int]:
        # A segment has no name any more, only descriptors: with the worker that made it until
        # main has fetched it, then with main.
        sizes = {}
        for pid in (os.getpid(), *self._workers()):
            for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
                try:
                    if os.readlink(descriptor).startswith("/dev/shm/torch_"):
                        segment = descriptor.stat()
                        sizes[segment.st_ino] = segment.st_size
                except OSError:  # closed meanwhile
                    continue
        return sizes


def _at_rest(workers: Sequence[int], read: Callable[[], _Reading]) -> _Reading:
    until = time.monotonic() + _BUSY
    while True:
        before = [_asleep(worker) for worker in workers]
        reading = read()
        rested = None not in before and before == [_asleep(worker) for worker in workers]
        if rested or time.monotonic() > until:
            return reading
        time.sleep(0.002)


def _asleep(pid: int) -> list[str] | None:
    # What a process's threads have done so far, as the kernel counts it; None if one is at work.
    try:
        threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:  # a thread ended meanwhile
        return None
    return None if any(re.search("State:\t[RD]", thread) for thread in threads) else threads


def _uss(pid: int) -> int:
    size: int = psutil.Process(pid).memory_full_info().uss
    return size


def growth(loader: DataLoader[Any], epochs: int = 1) -> float:
    """Run some epochs.

    Returns:
        The MB by which each worker grew, at the most, after all of them had delivered their first
        batch. A spawned one may still be importing torch when another delivers.
    """
    gauge = Gauge()
    private = [gauge.private() for _ in range(epochs) for _batch in loader]
    # Batches come in turn, one from each worker.
    started = private[max(loader.num_workers - 1, 0) :]
    return max(started) - started[0]


def no_proc() -> str | None:
    """Why segments cannot be read here, or None."""
    return None if Path("/proc/self/fd").is_dir() else "this machine has no /proc/PID/fd"
