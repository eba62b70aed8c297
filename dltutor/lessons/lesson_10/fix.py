"""Grade "10.fix", which asks for a dataset of recordings that makes no process's memory grow."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
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
from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, form, shown
from dltutor.lessons.engine.memory import Empty, finished, trim_heap
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made, theirs
from dltutor.observation import torch_internals
from dltutor.system import processes
from dltutor.system.process_memory import mapped
from dltutor.tables import MB

_RUNS: Final = ((2, 64, 3), (0, 128, 1), (4, 128, 1))  # each run's workers, recordings, and epochs
_LENGTH: Final = 300_000  # numbers in each recording
_EACH: Final = _LENGTH * 4 / MB  # MB that a recording takes up in memory
_SECOND: Final = 8  # recordings in a second archive
_WITHIN: Final = 40  # time limit in seconds for each run, and for each other call
_READ_EVERY: Final = 4  # batches between two readings of memory
_MOST: Final = 24  # the most MB of growth beyond an empty run (about 20 recordings)


@dataclass(frozen=True)
class Run:
    """A record of what one run of a dataset delivered.

    Args:
        workers: The number of workers.
        end: How the run ended.
        asked: How many samples the loader asked for, in all epochs.
        expected: The right samples for an epoch, by index.
        epochs: The samples that arrived in each epoch, by index.
        odd: What arrived instead of a batch of float32 numbers in one dimension, or "".
        grew: What grew ("main", "shared", "worker", or "others") -> the most MB that it grew by,
            beyond a run with an empty dataset. For "worker", it's the average worker.
    """

    workers: int
    end: Ending
    asked: int
    expected: list[float]
    epochs: list[dict[int, float]]
    odd: str = ""
    grew: dict[str, float] = field(default_factory=dict)


def run(answer: Any) -> Iterator[Run]:
    """Run three epochs with 2 workers, then one with 0 and one with 4 over a larger archive.

    The larger archive reveals a cache whose limit grows with the archive. At the end, reading
    alternately from two datasets whose files have the same names reveals a cache that both share.

    Raises:
        Rejected: A dataset can't be made, two datasets mix up their samples, or a run with an empty
            dataset didn't finish.
    """
    folder = Path(tempfile.mkdtemp())
    loudness = np.random.default_rng().permutation(_RUNS[-1][1] + _SECOND) + 1
    paths, expected = _archive(folder, loudness[_SECOND:])
    others, expected_there = _archive(folder / "second", loudness[:_SECOND])
    call = f"{answer.__name__}(paths)"
    for workers, files, epochs in _RUNS:
        read = partial(_run, workers=workers, epochs=epochs, expected=expected[:files])
        empty = read(partial(Empty, torch.zeros(files)))
        finished(empty.end, where(workers))
        make = partial(made, answer, paths[:files], call=call, within=_WITHIN)
        yield read(make, empty=empty.grew)

    def by_turns() -> list[list[float]]:
        both = answer(paths[:_SECOND]), answer(others)
        return [[float(each[index]) for each in both] for index in range(_SECOND)]

    values = made(by_turns, call=f"{call}[index]", within=_WITHIN)
    right = [*zip(expected[:_SECOND], expected_there, strict=True)]
    if mixed := _differ(values, right):
        not_yet("mixed", mixed=mixed, samples=2 * _SECOND)


def _archive(folder: Path, loudness: Any) -> tuple[tuple[str, ...], list[float]]:
    # Write recordings with a given loudness, and return their paths and right samples.
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
        iterator = iter(loader)
        growth.workers = [each.pid for each in torch_internals.workers_of(iterator)]
        for number, batch in enumerate(iterator):
            tensor = torch.is_tensor(batch)
            if not tensor or (batch.dtype, batch.ndim) != (torch.float32, 1):
                odd.append(form(batch) if tensor else shown(batch))
                return
            came.update((at, value) for value, at in zip(batch.tolist(), indices, strict=False))
            if number % _READ_EVERY == 0:
                growth.read()

    how: dict[str, Any] = {"workers": workers, "within": _WITHIN, "epochs": epochs}
    how |= {"persistent_workers": workers > 0, "worker_init_fn": growth.note_start}
    end = run_loader(dataset, epoch, batch_size=4, sampler=order, **how)
    spared = empty or {}
    grew = {what: max(0, most - spared.get(what, 0)) for what, most in growth.most.items()}
    return Run(workers, end, epochs * len(expected), expected, brought, "".join(odd[:1]), grew)


class _Growth:
    """A gauge of how many MB workers, main, other processes, and shared memory grow by.

    A worker's growth counts from before the worker's first sample.
    """

    def __init__(self) -> None:
        gc.collect()
        # A worker that reuses memory freed by main copies main's pages, so it would seem to grow.
        heap_growth.return_freed_memory(0)
        trim_heap()
        gc.freeze()  # a later collection would copy pages that main shares with the notebook
        # MB that each worker holds before its first sample, or 0 until it has called `note_start`
        self.starts = torch.zeros(4).share_memory_()
        self.workers: list[Any] = []  # the workers' pids
        self.first = self._sizes()
        self.most: dict[str, float] = {}

    def note_start(self, worker: int) -> None:
        """Record the size of the worker that calls this as its `worker_init_fn`."""
        self.starts[worker] = _held([os.getpid()])

    def read(self) -> None:
        """Measure the growth so far, and keep the largest value for each kind of memory."""
        for what, size in self._sizes().items():
            self.most[what] = max(size - self.first[what], self.most.get(what, 0.0))

    def _sizes(self) -> dict[str, float]:
        pairs = zip(self.workers, self.starts.tolist(), strict=False)
        workers = [pid for pid, start in pairs if start]
        others = processes.descendants(os.getpid()) - {*self.workers}
        grown = _held(workers) - float(self.starts.sum())
        return {
            # Also count shared pages, because the previous run's workers may still share some, and
            # main's private memory seems to grow when these workers end.
            "main": _held([os.getpid()], "Anonymous"),
            "shared": _held([os.getpid(), *workers, *others], "Pss_Shmem"),
            "worker": grown / max(1, len(workers)),
            "others": _held(others),
        }


def _held(pids: Iterable[int], of: str = "Private_Dirty") -> float:
    # By default, return the MB that the processes have written and don't share.
    return sum(mapped(pid).get(of, 0) for pid in pids) / MB


def judge(run: Run) -> None:
    """Raise `Rejected` unless all samples arrive and are right, and memory hardly grows."""
    there, files = where(run.workers), len(run.expected)
    if run.odd:
        not_yet("other-batch", batch=run.odd)
    check_ending(run.end, there, arrived=sum(map(len, run.epochs)), expected=run.asked)
    for came in run.epochs:
        if len(came) != files:
            not_yet("missing", where=there, came=len(came), files=files)
        if wrong := _differ([came[index] for index in range(files)], run.expected):
            not_yet("wrong-samples", where=there, wrong=wrong, files=files)
    for what, grown in run.grew.items():
        if grown > _MOST:
            code = "grew-alone" if what == "main" and not run.workers else f"grew-{what}"
            size = {"grown": f"{grown:.0f}", "recordings": f"{grown / _EACH:.0f}"}
            not_yet(code, where=there, files=files, **size)


GRADER: Final = by_runs(
    run,
    judge,
    look=partial(a_fixed_class, starter=CachedRecordings),
    at_most=len(_RUNS) * _WITHIN + 15,
)
