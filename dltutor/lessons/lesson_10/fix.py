"""Grade "10.fix": a dataset whose workers don't fill up, run for epochs over fresh recordings."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import shuffle
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.failures import heap_growth
from dltutor.failures.growing_cache import CachedRecordings
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.memory import Empty, beyond, finished
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.engine.running import made, theirs
from dltutor.system import processes
from dltutor.system.process_memory import mapped
from dltutor.tables import MB

_RUNS: Final = ((2, 64, 3), (0, 128, 1), (4, 128, 1))  # workers, recordings, epochs
_LENGTH: Final = 300_000  # numbers in each recording
_EACH: Final = _LENGTH * 4 / MB  # MB of one in memory
_SECOND: Final = 8  # recordings of a second archive
_WITHIN: Final = 40  # seconds for each run: a right class takes 2, and 15 on a busy machine
_READ_EVERY: Final = 4  # batches
_MOST: Final = 24  # MB that anything may grow by, beyond an empty run: about 20 recordings


@dataclass(frozen=True)
class Run:
    """What one run of a dataset brought.

    Args:
        workers: How many there were.
        end: How it ended.
        asked: How many samples it was asked for, over all epochs.
        expected: The right samples of an epoch, by index.
        epochs: The samples of each epoch, by index.
        odd: A batch that isn't a batch of the given class, in words, or "".
        grew: By how many MB each place grew, beyond what it grew by with an empty dataset.
    """

    workers: int
    end: Ending
    asked: int
    expected: list[float]
    epochs: list[dict[int, float]]
    odd: str = ""
    grew: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """The runs of a dataset, up to the first one that isn't right.

    Args:
        runs: The runs.
        mixed: Samples that were wrong when the datasets of two archives were read by turns.
    """

    runs: tuple[Run, ...]
    mixed: int = 0


def gather(answer: Any) -> Ran:
    """Three epochs by two workers; then one by none and one by four, over a larger archive.

    A bound that is a share of the archive shows in the larger one. A cache that is shared by all
    datasets shows when a second one, with the same file names, is read by turns with the first.
    """
    folder = Path(tempfile.mkdtemp())
    loudness = np.random.default_rng().permutation(_RUNS[-1][1] + _SECOND) + 1
    paths, expected = _archive(folder, loudness[_SECOND:])
    others, expected_there = _archive(folder / "second", loudness[:_SECOND])
    call = f"{answer.__name__}(paths)"
    runs: list[Run] = []
    for workers, files, epochs in _RUNS:
        run = partial(_run, workers=workers, epochs=epochs, expected=expected[:files])
        empty = run(partial(Empty, torch.zeros(files)))
        finished(empty.end, where(workers))
        make = partial(made, answer, paths[:files], call=call, within=_WITHIN)
        runs.append(run(make, empty=empty.grew))
        with suppress(Rejected):
            _is_right(runs[-1])
            continue
        return Ran(tuple(runs))

    def by_turns() -> list[list[float]]:
        both = answer(paths[:_SECOND]), answer(others)
        return [[float(each[index]) for each in both] for index in range(_SECOND)]

    values = made(by_turns, call=f"{call}[index]", within=_WITHIN)
    right = [*zip(expected[:_SECOND], expected_there, strict=True)]
    return Ran(tuple(runs), _differ(values, right))


def _archive(folder: Path, loudness: Any) -> tuple[tuple[str, ...], list[float]]:
    # Recordings of a given loudness: their paths, and the right sample for each.
    folder.mkdir(exist_ok=True)
    numbers = np.random.default_rng().integers(-200, 200, _LENGTH, dtype=np.int16)
    paths = tuple(f"{folder}/{number:03}.npy" for number in range(len(loudness)))
    for path, loud in zip(paths, loudness.tolist(), strict=True):
        np.save(path, loud * numbers)
    return paths, [float(np.abs(np.load(path).astype(np.float32)).mean()) for path in paths]


def _differ(values: Any, right: Any) -> int:
    return int((~np.isclose(values, right, rtol=1e-4)).sum())


def _run(
    make: Callable[[], Any],
    *,
    workers: int,
    epochs: int,
    expected: list[float],
    empty: dict[str, float] | None = None,
) -> Run:
    growth, brought, odd = _Growth(), list[dict[int, float]](), list[str]()
    dataset = make()
    growth.read()
    with theirs():
        order = [*range(len(dataset))]

    def epoch(loader: DataLoader[Any]) -> None:
        shuffle(order)
        came, indices = dict[int, float](), iter(order)
        brought.append(came)
        for number, batch in enumerate(loader):
            tensor = torch.is_tensor(batch)
            if not tensor or (batch.dtype, batch.ndim) != (torch.float32, 1):
                odd.append(f"{batch.dtype}, {tuple(batch.shape)}" if tensor else shown(batch))
                return
            came.update((at, value) for value, at in zip(batch.tolist(), indices, strict=False))
            if number % _READ_EVERY == 0:
                growth.read()

    how: dict[str, Any] = {"workers": workers, "within": _WITHIN, "epochs": epochs}
    how |= {"persistent_workers": workers > 0, "worker_init_fn": growth.note_start}
    end = run_loader(dataset, epoch, batch_size=4, sampler=order, **how)
    grew = beyond(empty or {}, growth.most)
    return Run(workers, end, epochs * len(expected), expected, brought, "".join(odd[:1]), grew)


class _Growth:
    """By how many MB workers, main, other processes, and shared memory grow from now on.

    A worker's growth counts from before its first sample, and all else's from before the dataset.
    """

    def __init__(self) -> None:
        gc.collect()
        # Or workers grow by what this process has freed, whatever they keep: cause D.
        heap_growth.return_freed_memory(0)
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        gc.freeze()  # a later collection would copy what main shares with the kernel
        self.pids = torch.zeros(4, dtype=torch.int64).share_memory_()
        self.starts = torch.zeros(4).share_memory_()  # MB of each worker before its first sample
        self.first = self._sizes()
        self.most: dict[str, float] = {}

    def note_start(self, worker: int) -> None:
        """Note a worker's pid and size, in that worker."""
        self.pids[worker], self.starts[worker] = os.getpid(), _held([os.getpid()])

    def read(self) -> None:
        """Note what is larger than it was at any reading before."""
        for what, size in self._sizes().items():
            self.most[what] = max(size - self.first[what], self.most.get(what, 0.0))

    def _sizes(self) -> dict[str, float]:
        workers = {*self.pids.tolist()} - {0}
        others = processes.descendants(os.getpid()) - workers
        grown = _held(workers) - float(self.starts.sum())
        return {
            # Shared with a fork or not: a worker of the run before may still be on its way out.
            "main": _held([os.getpid()], "Anonymous"),
            "shared": _held([os.getpid(), *workers, *others], "Pss_Shmem"),
            "worker": grown / max(1, len(workers)),
            "others": _held(others),
        }


def _held(pids: Iterable[int], of: str = "Private_Dirty") -> float:
    # MB that processes have written and share with nobody; files that they map are left out.
    return sum(mapped(pid).get(of, 0) for pid in pids) / MB


def judge(ran: Ran) -> Result:
    """Correct if all samples came, from any number of workers, and nothing grew."""
    for run in ran.runs:
        _is_right(run)
    if ran.mixed:
        not_yet("mixed", mixed=ran.mixed, samples=2 * _SECOND)
    return correct()


def _is_right(run: Run) -> None:
    there, files = where(run.workers), len(run.expected)
    if run.odd:
        not_yet("other-batch", batch=run.odd)
    ended_well(run.end, there, arrived=sum(map(len, run.epochs)), expected=run.asked)
    for came in run.epochs:
        if len(came) != files:
            not_yet("missing", where=there, came=len(came), files=files)
        if wrong := _differ([came[index] for index in range(files)], run.expected):
            not_yet("wrong-samples", where=there, wrong=wrong, files=files)
    for what, grown in run.grew.items():
        if grown > _MOST:
            code = "alone" if what == "main" and not run.workers else what
            size = {"grown": f"{grown:.0f}", "recordings": f"{grown / _EACH:.0f}"}
            not_yet(f"grew-{code}", where=there, files=files, **size)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=CachedRecordings),
    at_most=len(_RUNS) * _WITHIN + 15,
)
