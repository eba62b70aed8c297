"""Grade "10.fix": a dataset whose workers do not fill up, run for epochs over fresh recordings."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import shuffle
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader

from dltutor.failures import heap_growth
from dltutor.failures.growing_cache import CachedRecordings
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.memory import Empty, beyond, finished
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made, theirs
from dltutor.system import processes
from dltutor.system.process_memory import mapped
from dltutor.tables import MB

RUNS: Final = ((2, 64, 3), (0, 128, 1), (4, 128, 1))  # workers, recordings, epochs
_LENGTH: Final = 300_000  # numbers in each recording
_EACH: Final = _LENGTH * 4 / MB  # MB of one in memory
_SECOND: Final = 8  # recordings of a second archive
_WITHIN: Final = 40  # seconds for each run: a right class takes 2, and 15 on a busy machine
_READ_EVERY: Final = 4  # batches
_IN_MEMORY: Final = ("/dev/shm/", "/memfd:")


@dataclass(frozen=True)
class Ran:
    """What a dataset did in its runs; the last is the first that something was wrong with.

    Args:
        ends: Of each run, by its number of workers.
        epochs: What each epoch of each run brought, likewise, in the order of the files.
        expected: The right samples, in the same order.
        grew: By how much each of `_TOO_MUCH` grew in the last run, beyond an empty run's growth.
        odd: A batch of another kind than the given class's, in words, or nothing.
        changed: Recordings that are not the files that they were.
        mixed: Samples that were wrong when the datasets of two archives were read by turns.
    """

    ends: dict[int, Ending]
    epochs: dict[int, list[list[float]]]
    expected: list[float]
    grew: dict[str, float]
    odd: str = ""
    changed: int = 0
    mixed: int = 0


def gather(answer: Any) -> Ran:
    """Three epochs by two workers; then one by none and by four, over a larger archive.

    What is bounded by a share of the archive shows in the larger one; what is kept by name or index
    in a second one, read by turns with the first. No check's recordings are those of another.
    """
    folder, random = tempfile.mkdtemp(), np.random.default_rng()
    numbers = random.integers(-200, 200, _LENGTH, dtype=np.int16)
    archives = (folder, RUNS[-1][1]), (tempfile.mkdtemp(dir=folder), _SECOND)
    paths, second = (tuple(f"{at}/{name:03}.npy" for name in range(n)) for at, n in archives)
    every = paths + second
    for loudness, path in zip(random.permutation(len(every)).tolist(), every, strict=True):
        np.save(path, (loudness + 1) * numbers)
    expected = [float(np.abs(np.load(path).astype(np.float32)).mean()) for path in every]
    archive = contents(Path(folder))
    ends, brought, odd = dict[int, Ending](), dict[int, list[list[float]]](), list[str]()
    mixed = 0

    def epoch(loader: DataLoader[Any]) -> None:
        shuffle(order)
        came: list[float] = []
        brought[loader.num_workers].append(came)
        for number, batch in enumerate(loader):
            tensor = torch.is_tensor(batch)
            if not tensor or (batch.dtype, batch.ndim) != (torch.float32, 1):
                odd.append(f"{batch.dtype}, {tuple(batch.shape)}" if tensor else shown(batch))
                return
            came.extend(batch.tolist())
            if number % _READ_EVERY == 0:
                growth.read()
        if len(came) == len(order):
            came[:] = [value for _, value in sorted(zip(order, came, strict=True))]

    def take(loader: DataLoader[Any]) -> None:
        for number, _ in enumerate(loader):
            if number % _READ_EVERY == 0:
                growth.read()

    def by_turns() -> list[list[float]]:
        both = answer(paths[:_SECOND]), answer(second)
        return [[float(each[index]) for each in both] for index in range(_SECOND)]

    call = f"{answer.__name__}(paths)"
    for workers, files, epochs in RUNS:
        run = partial(_run, workers=workers, epochs=epochs)
        growth = _Growth(workers)
        order = growth.begin(Empty(torch.zeros(files)))
        finished(run(growth, take, order), where(workers))
        empty = growth.most
        growth, brought[workers] = _Growth(workers), []
        order = growth.begin(made(answer, paths[:files], call=call, within=_WITHIN))
        ends[workers] = run(growth, epoch, order)
        grew = beyond(empty, growth.most)
        gone = sum(path in archive for path in changed(archive, Path(folder)))
        if gone or odd or ends[workers].end != "finished" or _too_much(grew):
            break
    else:
        values = made(by_turns, call=f"{call}[index]", within=_WITHIN)
        right = [*zip(expected, expected[len(paths) :], strict=False)]
        mixed = int((~np.isclose(values, right, rtol=1e-4)).sum())
    return Ran(ends, brought, expected, grew, "".join(odd[:1]), gone, mixed)


def _run(
    growth: _Growth,
    loop: Callable[[DataLoader[Any]], None],
    order: list[int],
    *,
    workers: int,
    epochs: int,
) -> Ending:
    how: dict[str, Any] = {"workers": workers, "within": _WITHIN, "epochs": epochs}
    how |= {"persistent_workers": workers > 0, "worker_init_fn": growth.note_start}
    return run_loader(growth.dataset, loop, batch_size=4, sampler=order, **how)


class _Growth:
    """By how much workers, main, other processes and shared memory grow from now on.

    A worker's growth counts from before its first sample, all else's from before the dataset.
    """

    def __init__(self, workers: int) -> None:
        gc.collect()
        # Or workers grow by what this process has freed, whatever they keep: cause D.
        heap_growth.return_freed_memory(0)
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        gc.freeze()  # a later collection would copy what main shares with the kernel
        self.main = "main" if workers else "alone"
        self.starts = torch.zeros(4).share_memory_()  # MB of each worker before its first sample
        self.mapped = torch.zeros(1).share_memory_()  # MB, of files in memory
        sys.addaudithook(self._note_mapping)
        self.others = _children()
        self.files = _files([os.getpid()]).keys()
        self.written = _written([os.getpid()])
        self.first = self._sizes()
        self.most: dict[str, float] = {}
        self.dataset: Any = None

    def begin(self, dataset: Any) -> list[int]:
        """The dataset is made: what this process starts from now on is a worker.

        Returns:
            Its indices, to be shuffled.
        """
        self.dataset = dataset
        self.others = _children()
        self.read()
        with theirs():
            return [*range(len(dataset))]

    def note_start(self, worker: int) -> None:
        self.starts[worker] = _held([os.getpid()])

    def _note_mapping(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "mmap.__new__" and given[0] >= 0:
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{given[0]}").startswith(_IN_MEMORY):
                    self.mapped += os.fstat(given[0]).st_size / MB

    def read(self) -> None:
        for what, size in self._sizes().items():
            grown = size - self.first.setdefault(what, size)
            self.most[what] = max(grown, self.most.get(what, 0.0))

    def _sizes(self) -> dict[str, float]:
        workers = _children() - self.others
        others = processes.descendants(os.getpid()) - workers
        every = [os.getpid(), *workers, *others]
        # Other programs make files, too: of these processes are at most as many bytes as they
        # wrote or mapped, and no file that another has open or mapped.
        made = (_written(every) - self.written) / MB + float(self.mapped)
        files = _files(every)
        new = files.keys() - self.files
        if min(_sum(files, new), made) > _TOO_MUCH["shared"]:
            new -= set().union(*map(processes.files_of, {*psutil.pids()} - {*every}))
        sizes = {
            # Shared with a fork or not: a worker of the run before may still be on its way out.
            self.main: sum(_held([os.getpid()], of) for of in ("Anonymous", "Pss_Shmem")),
            "others": _held(others),
            "shared": max(_held(every, "Pss_Shmem"), min(_sum(files, new), made)),
        }
        if workers:
            self.first["worker"] = float(self.starts.sum()) / len(workers)
            sizes["worker"] = _held(workers) / len(workers)
            sizes["descriptors"] = _entries("fd", every)
            sizes["threads"] = _entries("task", every)
        return sizes


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid}


def _held(pids: Iterable[int], field: str = "Private_Dirty") -> float:
    # MB that processes have written and share with nobody; files that they map are left out.
    return sum(mapped(pid).get(field, 0) for pid in pids) / MB


def _written(pids: Iterable[int]) -> int:
    total = 0
    for pid in pids:
        with suppress(psutil.Error):
            total += psutil.Process(pid).io_counters().write_chars
    return total


def _entries(kind: str, pids: Iterable[int]) -> int:
    return sum(1 for pid in pids for _ in Path(f"/proc/{pid}/{kind}").glob("*"))


def _sum(files: dict[tuple[int, int], float], which: Iterable[tuple[int, int]]) -> float:
    return sum(files[each] for each in which)


def _files(pids: Iterable[int]) -> dict[tuple[int, int], float]:
    # Device and inode -> MB of what lies in memory as a file, with a name in /dev/shm or only a
    # descriptor; torch's own come and go.
    opened = (path for pid in pids for path in Path(f"/proc/{pid}/fd").glob("*"))
    sizes = {}
    for path in chain(Path("/dev/shm").rglob("*"), opened):
        with suppress(OSError):
            name = os.readlink(path) if path.is_symlink() else str(path)
            if name.startswith(_IN_MEMORY) and "/torch_" not in name:
                found = path.stat()
                sizes[found.st_dev, found.st_ino] = found.st_blocks * 512 / MB
    return sizes


# What may grow beyond an empty run, by how much: MB are those of about 20 recordings. In the order
# in which a learner is told.
_TOO_MUCH: Final = {
    "threads": 64,
    "main": 24,
    "alone": 24,
    "shared": 24,
    "descriptors": 64,
    "worker": 24,
    "others": 24,
}


def _too_much(grew: dict[str, float]) -> str:
    return next((what for what, most in _TOO_MUCH.items() if grew.get(what, 0) > most), "")


def judge(ran: Ran) -> Result:
    """Correct if all samples came, from any number of workers, and nothing grew."""
    if ran.changed:
        not_yet("files-changed", files=ran.changed)
    if ran.odd:
        not_yet("other-batch", batch=ran.odd)
    for workers, files, epochs in RUNS[: len(ran.ends)]:
        arrived = sum(map(len, ran.epochs[workers]))
        there = where(workers)
        ended_well(ran.ends[workers], there, arrived=arrived, expected=files * epochs)
        right = ran.expected[:files]
        for came in ran.epochs[workers]:
            if len(came) != files:
                not_yet("missing", where=there, came=len(came), files=files)
            if wrong := int((~np.isclose(came, right, rtol=1e-4)).sum()):
                not_yet("wrong-samples", where=there, wrong=wrong, files=files)
    if what := _too_much(ran.grew):
        grown = ran.grew[what]
        recordings = f"{grown / _EACH:.0f}"
        not_yet(
            f"grew-{what}", where=there, grown=f"{grown:.0f}", recordings=recordings, files=files
        )
    if ran.mixed:
        not_yet("mixed", mixed=ran.mixed, samples=2 * _SECOND)
    return correct()


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=CachedRecordings),
    at_most=len(RUNS) * _WITHIN + 15,
)
