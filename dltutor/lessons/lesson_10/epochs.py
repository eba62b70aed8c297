"""The epochs of a loader of "10.fix": what they brought, and whose memory grew."""

from __future__ import annotations

import functools
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ending
from dltutor.lessons.lesson_10.memory import (
    count_collections,
    held,
    names_in,
    shm_files,
    small_garbage,
)
from dltutor.observation import observe

EPOCHS: Final = 3
WITHIN: Final = 30  # seconds for all of them
LENGTH: Final = 300_000  # numbers in a recording: 1.2 MB as float32
_RECORDINGS: Final = 64
_READ_EVERY: Final = 3  # batches


@dataclass(frozen=True)
class Ran:
    """What a loader did in its epochs. Sizes are in MB.

    Args:
        end: How the run ended.
        asked_workers: The loader's `num_workers`.
        expected: The right samples, in the order of the files.
        samples: What each epoch brought.
        lived_on: Whether the workers of the first epoch were those of the second.
        taken: What main took to make the loader.
        grew: By how much a worker grew in all epochs, on average.
        grew_in_one: The most that it grew by in one of them.
        main: By how much main grew.
        others: By how much all other processes grew.
        files: What files in `/dev/shm` take that were not there before.
        collections: How many full garbage collections there were.
        names: The names that the dataset's methods use, and "del".
        bounds: The `maxsize` of each of its cached functions.
        dict_of_class: Whether the class has a dict that its objects have in common.
    """

    end: Ending
    asked_workers: int
    expected: tuple[float, ...]
    samples: tuple[tuple[float, ...], ...]
    lived_on: bool = True
    taken: float = 0.0
    grew: float = 0.0
    grew_in_one: float = 0.0
    main: float = 0.0
    others: float = 0.0
    files: float = 0.0
    collections: int = 0
    names: frozenset[str] = frozenset()
    bounds: tuple[int | None, ...] = ()
    dict_of_class: bool = False


def fresh_recordings() -> tuple[str, ...]:
    """Recordings of 1 to 64 times the same loudness; their folder goes with the check."""
    folder = tempfile.mkdtemp()
    random = np.random.default_rng(10)
    paths = [Path(folder, f"{number:03}.npy") for number in range(_RECORDINGS)]
    for loudness, path in enumerate(paths, start=1):
        np.save(path, random.integers(-400 * loudness, 400 * loudness, LENGTH, dtype=np.int16))
    return tuple(map(str, paths))


def run_epochs(make: Callable[[], DataLoader[Any]], paths: Sequence[str]) -> Ran:
    """Make a loader of these recordings, and run it for its epochs.

    Args:
        make: Makes the loader.
        paths: The recordings, in order.
    """
    collections, files = count_collections(), shm_files()
    small_garbage()  # a collection later on would write to the pages of all that the kernel has
    before = held(os.getpid())
    loader = make()
    taken = held(os.getpid()) - before
    growth, dataset = _Growth(), loader.dataset
    end = ending(observe(loader, deadline=WITHIN, consume=growth.run))
    kind = type(dataset)
    return Ran(
        end=end,
        asked_workers=loader.num_workers,
        expected=tuple(float(np.abs(np.load(each).astype(np.float32)).mean()) for each in paths),
        samples=tuple(map(tuple, growth.samples)),
        lived_on=not growth.pids[1:] or bool(growth.pids[0] & growth.pids[1]),
        taken=taken,
        grew=_grown(each for epoch in growth.workers for each in epoch),
        grew_in_one=max(map(_grown, growth.workers), default=0.0),
        main=_grown(growth.main),
        others=_grown(growth.others),
        files=sum(size for inode, size in shm_files().items() if inode not in files),
        collections=collections(),
        names=frozenset(names_in(kind)),
        bounds=tuple(each.cache_parameters()["maxsize"] for each in _cached_functions(dataset)),
        dict_of_class=any(
            isinstance(value, dict) for name, value in vars(kind).items() if name[:2] != "__"
        ),
    )


def _cached_functions(dataset: Any) -> list[Any]:
    kind = type(dataset)
    own = vars(dataset).values() if hasattr(dataset, "__dict__") else ()
    function = vars(kind).get("load") or vars(kind).get("__getitem__")
    known = getattr(function, "__globals__", {})
    used = [known[name] for name in names_in(kind) if name in known]
    return [
        each
        for each in (*vars(kind).values(), *own, *used)
        if isinstance(each, functools._lru_cache_wrapper)
    ]


@dataclass
class _Growth:
    # MB held by one worker on average (by main where there is none), by main, by all others
    workers: list[list[float]] = field(default_factory=list)
    main: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    pids: list[set[int]] = field(default_factory=list)  # the workers of each epoch
    samples: list[list[float]] = field(default_factory=list)

    def run(self, loader: DataLoader[Any]) -> None:
        earlier = _children()
        for _ in range(EPOCHS):
            self.samples.append([])
            self.workers.append([])
            for number, batch in enumerate(loader):
                self.samples[-1].extend(_numbers(batch))
                if number % _READ_EVERY == 0:
                    self._read(_children() - earlier)
            self.pids.append(_children() - earlier)

    def _read(self, workers: set[int]) -> None:
        family = {child.pid for child in psutil.Process().children(recursive=True)}
        self.main.append(held(os.getpid()))
        each = _together(workers) / len(workers) if workers else self.main[-1]
        self.workers[-1].append(each)
        self.others.append(_together(family - workers))


def _grown(readings: Iterable[float]) -> float:
    known = list(readings)
    return max(known) - known[0] if known else 0.0


def _together(pids: Iterable[int]) -> float:
    return sum(map(held, pids))


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


def _numbers(batch: Any) -> list[float]:
    if not isinstance(batch, torch.Tensor) or batch.dim() != 1:
        raise TypeError("a sample must stay what it was: a tensor with one number")
    return [float(number) for number in batch]
