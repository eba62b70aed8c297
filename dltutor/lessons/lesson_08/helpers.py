"""Measure the memory of loaders with full queues, and of the four jobs in "08.diagnose".

Without `/proc`, as on macOS, `moment`, `predicted_and_measured`, and `four_jobs` return a note.
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
from dltutor.lessons.engine.promised import promised
from dltutor.lessons.lesson_08.fix import weigh
from dltutor.observation.time_limits import deadline
from dltutor.system import cgroup_files
from dltutor.system.process_memory import shared_memory
from dltutor.tables import MB, Note, Table, size

_PATIENCE: Final = 30.0  # time limit in seconds for a loader to fill its queues
_LINUX: Final = Note("Not on this machine:", "there's no /proc. The solved notebook shows a run.")


def ready(batches: Any) -> int:
    """Return how many of a loader's batches are finished, but not yet in the loop.

    Args:
        batches: torch's iterator over the loader. Without workers, the result is 0.
    """
    if not hasattr(batches, "_worker_result_queue"):
        return 0
    fetched = sum(len(info) == 2 for info in batches._task_info.values())
    return int(batches._worker_result_queue.qsize()) + fetched


def outside() -> dict[str, int | None]:
    """Return how many bytes are in use, according to tools that don't look at single processes.

    `docker stats` and `kubectl top` leave out the cached files that Linux counts as inactive (see
    `inactive_file` in a cgroup's `memory.stat`).

    Returns:
        The tool's name -> the bytes, or None if this machine doesn't report them.
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
    """A measurement of the memory of a loader with full queues, while the loop has one batch.

    Args:
        processes: psutil's `rss`, `pss`, and `uss` of main, W0, W1, and so on, in bytes.
        held: The bytes of the batches in shared memory.
        batches: How many batches the workers have made, including the one in the loop.
        batch: The bytes of the numbers in the loop's batch.
        before: The numbers from `outside`, before the loader started.
        now: The numbers from `outside`, with full queues.
    """

    processes: tuple[Any, ...]
    held: int
    batches: int
    batch: int
    before: dict[str, int | None]
    now: dict[str, int | None]

    def sum_of(self, of: str) -> int:
        """Return the sum of "rss", "pss", or "uss" over all processes."""
        return sum(getattr(each, of) for each in self.processes)

    def from_outside(self) -> Table:
        """Show the numbers from `outside` with full queues, and how much each of them grew by."""
        promised(abs(self.held - self.batches * self.batch) < MB, self)
        rows = []
        for (name, now), counts in zip(self.now.items(), _COUNTS, strict=True):
            cells = ("-", "-") if now is None else (size(now), size(now - (self.before[name] or 0)))
            rows.append((name, *cells, counts))
        header = ("number", "now", "grew by", "what it counts")
        return Table("From outside", tuple(rows), header)


def full(loader: DataLoader[Any], look: Callable[[], object] = int) -> Moment:
    """Run a loader until its queues are full, measure the memory in use, and end the workers.

    Args:
        loader: A loader with more batches than its queues hold.
        look: A function to call while the queues are full.

    Raises:
        DeadlinePassed: Filling the queues, measuring, and `look` together took more than 30 s.
    """
    gauge, before = Gauge(), outside()
    waiting = loader.num_workers * (loader.prefetch_factor or 0)
    with deadline(_PATIENCE):
        batches = iter(loader)
        try:
            first = next(batches)
            while ready(batches) < waiting:
                time.sleep(0.01)
            held = gauge.shared()  # waits until the workers are idle
            pids = [os.getpid(), *(worker.pid for worker in getattr(batches, "_workers", ()))]
            count = waiting + (loader.num_workers > 0)
            processes = tuple(psutil.Process(pid).memory_full_info() for pid in pids)
            each = weigh(first)[-1]
            batch = sum(getattr(torch, kind).itemsize * numbers for kind, numbers, _ in each)
            now = outside()
            look()
        finally:
            getattr(batches, "_shutdown_workers", int)()
    return Moment(processes, int(held * MB), count, batch, before, now)


def recordings(count: int = 24, length: int = 500_000) -> tuple[str, ...]:
    """Return the paths of `count` recordings with `length` numbers each, two bytes per number."""
    return shared_recordings(count, length)


def moment(loader: DataLoader[Any], look: Callable[[], object]) -> Moment | Note:
    """Return the Moment that `full` measures, or a note on a machine without `/proc`."""
    return _LINUX if no_proc() else full(loader, look)


def predicted_and_measured(loaders: Mapping[str, DataLoader[Any]]) -> Table | Note:
    """Show how much shared memory loaders with full queues hold, next to the prediction.

    The prediction is the number of batches, including the loop's, times the size of a batch.

    Args:
        loaders: A loader's name, such as "2 x 4" for 2 workers and a prefetch_factor of 4 -> the
            loader.

    Returns:
        The table, or a note on a machine without `/proc`.
    """
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
    """A dataset with tiny samples, to compare the four jobs with. Jobs A and C use subclasses."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(8)


class _InMain(Nothing):
    # Each sample has one byte from every MB of an array that main fills.
    def __init__(self) -> None:
        self.map = np.full(96 * MB, 7, np.uint8)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.map[index::MB].copy())


class _InEach(Nothing):
    # Each worker fills its own array when it makes its first sample.
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
    """Show how much more memory each of four jobs uses than a loader with tiny samples.

    The table also has the size of each job's batches: in shared memory, and by their shapes. On a
    machine without `/proc`, the result is a note.
    """
    if no_proc():
        return _LINUX
    empty, rows = full(load(Nothing(), 2, "fork")), []
    for name, loader in _jobs():
        seen = full(loader)
        more = [seen.sum_of(of) - empty.sum_of(of) for of in ("rss", "pss", "uss")]
        shapes = seen.batches * seen.batch
        promised(_as_in_notebook(name, more, seen.held, shapes), (name, more, seen))
        rows.append((name, *map(_near, (*more, seen.held, shapes))))
        del loader, seen
    header = ("job", "sum of RES", "sum of PSS", "sum of USS", "/dev/shm", "batches by shape")
    return Table("How much more than a loader with tiny samples", tuple(rows), header)


def _near(count: int) -> str:
    return f"{max(0, round(count / MB))} MB"


def _as_in_notebook(job: str, more: list[int], held: int, shapes: int) -> bool:
    rss, pss, uss = more
    return {
        "A": min(rss, pss, uss) > 80 * MB,
        "B": held > 25 * MB and abs(held - shapes) < MB and uss < 40 * MB,
        "C": rss > 200 * MB and pss < 150 * MB and uss < 40 * MB,
        "D": held > 12 * MB and shapes < MB and uss < 40 * MB,
    }[job]
