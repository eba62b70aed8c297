"""What a loader holds when all its queues are full, read from inside and from outside; four jobs.

Where there is no `/proc`, as on macOS, none of it can be read, and the tables say so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import prefetch_budget, view_of_a_giant
from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import Gauge, no_proc
from dltutor.lessons.lesson_08.fix import weigh
from dltutor.observation.time_limits import deadline
from dltutor.system import cgroup_files
from dltutor.system.process_memory import shared_memory
from dltutor.tables import MB, Note, Table, size

_PATIENCE: Final = 30.0  # seconds for a loader to fill its queues
_LINUX: Final = Note("Not on this machine:", "there is no /proc. The solved notebook shows it.")


def ready(batches: Any) -> int:
    """How many batches of an iterator are made, and not yet with the loop."""
    if not hasattr(batches, "_worker_result_queue"):
        return 0
    fetched = sum(len(info) == 2 for info in batches._task_info.values())
    return int(batches._worker_result_queue.qsize()) + fetched


def sizes(pid: int) -> Any:
    """The memory of a process, in bytes, as psutil tells it: `rss`, `shared`, `pss`, `uss`."""
    return psutil.Process(pid).memory_full_info()


def outside() -> dict[str, int | None]:
    """What is told of memory without looking at a process, in bytes; None where it is not told.

    `docker stats` and `kubectl top` leave out the files that were not read again.
    """
    memory = psutil.virtual_memory()
    file, _ = cgroup_files.memory()
    charged = cgroup_files.number(file)
    stat = cgroup_files.counts(f"{os.path.dirname(file)}/memory.stat")
    files = stat.get("total_inactive_file", stat.get("inactive_file", 0))
    return {
        "df /dev/shm": shared_memory()[0],
        "free, used": memory.total - memory.available,
        "cgroup, memory.current": charged,
        "docker stats, kubectl top": None if charged is None else charged - files,
    }


_COUNTS: Final = (
    "batches that are waiting, and the loop's",
    "all programs, and /dev/shm",
    "the container's processes, /dev/shm, page cache",
    "the same, minus files not read lately",
)


@dataclass(frozen=True)
class Moment:
    """A loader with full queues, while the loop holds its first batch.

    Args:
        processes: The `sizes` of main, W0, W1 and so on.
        held: Bytes of its batches in shared memory.
        batches: How many there are, with the one in the loop.
        batch: Bytes of the numbers in that one.
        before: From outside, before the loader started.
        now: From outside, at this moment.
    """

    processes: tuple[Any, ...]
    held: int
    batches: int
    batch: int
    before: dict[str, int | None]
    now: dict[str, int | None]

    def sum_of(self, of: str) -> int:
        """The sum over all processes of "rss", "pss" or "uss"."""
        return sum(getattr(each, of) for each in self.processes)

    def from_outside(self) -> Table:
        """The same moment in the numbers of tools that don't look at processes."""
        promised(abs(self.held - self.batches * self.batch) < MB, self)
        rows = []
        for (name, now), counts in zip(self.now.items(), _COUNTS, strict=True):
            told = ("-", "-") if now is None else (size(now), size(now - (self.before[name] or 0)))
            rows.append((name, *told, counts))
        header = ("number", "now", "grew by", "what it counts")
        return Table("From outside", tuple(rows), header)


def full(loader: DataLoader[Any], look: Callable[[], object] = int) -> Moment:
    """Run a loader until its queues are full, call a function then, and end it.

    Args:
        loader: With workers, and more batches than its queues hold.
        look: What is called at that moment.
    """
    gauge, before = Gauge(), outside()
    waiting = loader.num_workers * (loader.prefetch_factor or 0)
    with deadline(_PATIENCE):
        batches = iter(loader)
        try:
            first = next(batches)
            while ready(batches) < waiting:
                time.sleep(0.01)
            held = gauge.shared()  # waits until the workers rest
            pids = [os.getpid(), *(worker.pid for worker in getattr(batches, "_workers", ()))]
            count = waiting + (loader.num_workers > 0)
            read = tuple(map(sizes, pids)), int(held * MB), count, _shown(first)
            now = outside()
            look()
        finally:
            getattr(batches, "_shutdown_workers", int)()
    return Moment(*read, before, now)


def _shown(batch: Any) -> int:
    return sum(getattr(torch, kind).itemsize * count for kind, count, _ in weigh(batch)[-1])


def recordings(count: int = 24, length: int = 500_000) -> tuple[str, ...]:
    """The paths of so many recordings of so many numbers, each of two bytes."""
    return shared_recordings(count, length)


def moment(loader: DataLoader[Any], look: Callable[[], object]) -> Moment | Note:
    """`full`, where it can be read: what notebook 08 calls."""
    return _LINUX if no_proc() else full(loader, look)


def predicted_and_measured(loaders: Mapping[str, DataLoader[Any]]) -> Table | Note:
    """What loaders hold in shared memory when they're full, next to the prediction."""
    if no_proc():
        return _LINUX
    rows = []
    for name, loader in loaders.items():
        seen = full(loader)
        predicted = seen.batches * seen.batch
        right = abs(seen.held - predicted) <= 0.02 * predicted
        promised(right, (name, seen))
        words = "" if right else "not as predicted"
        if not predicted:
            words = "no tensor, so it waits in its worker" if seen.batches else "nothing is ahead"
        rows.append((name, str(seen.batches), size(predicted), size(seen.held), words))
    header = ("workers x prefetch_factor", "batches", "predicted", "measured", "")
    return Table("Batches in shared memory", tuple(rows), header)


class Nothing(Dataset[torch.Tensor]):
    """Samples of next to nothing. A base for the jobs."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(8)


class _InMain(Nothing):
    # Every sample is a piece of an array that main has loaded.
    def __init__(self) -> None:
        self.map = np.full(96 * MB, 7, np.uint8)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.map[index::MB].copy())


class _InEach(Nothing):
    # Each worker loads the array with its first sample.
    map: Any = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.map is None:
            self.map = np.full(48 * MB, 7, np.uint8)
        return torch.from_numpy(self.map[index::MB].copy())


def _jobs() -> Iterator[tuple[str, DataLoader[Any]]]:
    yield "A", load(_InEach(), 2, "fork")
    yield "B", prefetch_budget.broken().loader
    yield "C", load(_InMain(), 2, "fork")
    giants = view_of_a_giant.Excerpts(recordings())
    yield "D", load(giants, 2, "fork", batch_size=None, prefetch_factor=8)


def four_jobs() -> Table | Note:
    """Four loaders with full queues, and how much more they hold than one with tiny samples."""
    if no_proc():
        return _LINUX
    empty, rows = full(load(Nothing(), 2, "fork")), []
    for name, loader in _jobs():
        seen = full(loader)
        more = [seen.sum_of(of) - empty.sum_of(of) for of in ("rss", "pss", "uss")]
        shapes = seen.batches * seen.batch
        promised(_as_told(name, more, seen.held, shapes), (name, more, seen))
        rows.append((name, *map(_near, (*more, seen.held, shapes))))
        del loader, seen
    header = ("job", "sum of RES", "sum of PSS", "sum of USS", "/dev/shm", "batches by shape")
    return Table("How much more than a loader with tiny samples", tuple(rows), header)


def _near(count: int) -> str:
    return f"{max(0, round(count / MB))} MB"


def _as_told(job: str, more: list[int], held: int, shapes: int) -> bool:
    rss, pss, uss = more
    return {
        "A": min(rss, pss, uss) > 80 * MB,
        "B": held > 25 * MB and abs(held - shapes) < MB and uss < 40 * MB,
        "C": rss > 200 * MB and pss < 150 * MB and uss < 40 * MB,
        "D": held > 12 * MB and shapes < MB and uss < 40 * MB,
    }[job]


def promised(holds: bool, found: object) -> None:
    """What a text of the notebook says of a run; the course's own tests stop where it is not so."""
    if os.environ.get("DLTUTOR_STRICT") == "1" and not holds:
        raise AssertionError(found)
