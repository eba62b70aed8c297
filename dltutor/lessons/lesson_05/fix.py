"""Grade "05.fix": windows of recordings that are larger than memory, read by forked workers.

Which process wins the race for a shared position is luck. Whether a worker moves one isn't: see
`Positions`.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import ConcatDataset, default_collate

from dltutor.lessons.engine.endings import ended_well, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_05.delivery import (
    LONG,
    RUNS,
    Delivered,
    all_came,
    deliver,
    read,
    reject,
)
from dltutor.lessons.lesson_05.material import WIDTH, Windows

_NUMBERS: Final = 2**28 - 9  # in each recording: 512 MB, but hardly any of it is on the disk
_WINDOWS: Final = _NUMBERS - WIDTH + 1
_MOST: Final = 4  # descriptors of one recording that a process may have


@dataclass(frozen=True)
class Epochs:
    """What an answer did with some workers.

    Args:
        samples: What it delivered.
        moved: Whether a worker moved a position of main's.
        opened: How many descriptors of one recording a process had.
        touched: The files in the folder that are new, are gone, or were written to.
    """

    samples: Delivered
    moved: bool = False
    opened: int = 0
    touched: tuple[str, ...] = ()


class Positions:
    """Watch whether forked workers move a position of main's, and how much each process opens.

    Main must not read at the same time, so that only a worker can have moved a position. Each
    worker looks after every call, so it also sees a position that's put back.

    Args:
        files: The files to watch.
    """

    def __init__(self, files: Sequence[os.stat_result]) -> None:
        self._files = files
        self._held: list[int] = []
        self._shared = mmap.mmap(-1, 2)  # whether one was moved; descriptors, if too many

    def begin(self) -> None:
        """Hold what main has open now. It is for workers that are forked from now on."""
        while self._held:
            os.close(self._held.pop())
        for descriptor, stat in _descriptors():
            if any(os.path.samestat(stat, each) for each in self._files):
                self._held.append(os.dup(descriptor))  # the same position
        self._before = self._positions()
        self._shared[:] = bytes(2)

    def watch(self, worker: int) -> None:
        """Watch this worker: a `worker_init_fn`."""
        sys.setprofile(self._look)

    def collate(self, samples: list[Any]) -> Any:
        """Make a batch, and count what the process has open: a `collate_fn`."""
        if (count := self._opened()) > _MOST:
            self._shared[1] = min(count, 255)
        return default_collate(samples)

    @property
    def moved(self) -> bool:
        """Whether a worker has moved a position of main's."""
        return bool(self._shared[0])

    @property
    def opened(self) -> int:
        """How many descriptors of one file main has now, or a worker had if it were too many."""
        return max(self._opened(), self._shared[1])

    def _opened(self) -> int:
        found = [stat for each, stat in _descriptors() if each not in self._held]
        return max(sum(os.path.samestat(stat, each) for stat in found) for each in self._files)

    def _positions(self) -> list[int]:
        return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in self._held]

    def _look(self, frame: object, event: str, called: object) -> None:
        if self._positions() != self._before:
            self._shared[0] = 1


def _descriptors() -> list[tuple[int, os.stat_result]]:
    found = []
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the one that listed them is closed again
            found.append((descriptor, os.fstat(descriptor)))
    return found


class _Recordings:
    """Three recordings, with numbers where the check reads windows, and holes in between."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.paths = [self.folder / name for name in ("monday.bin", "tuesday.bin", "friday.bin")]
        self.expected: dict[int, torch.Tensor] = {}  # by the index in all three together
        self.order: list[int] = []  # one recording after the other: all workers read the same
        self.parts: list[dict[int, torch.Tensor]] = []  # the same, by the index in each of them
        random = np.random.default_rng(55)
        for which, path in enumerate(self.paths):
            with path.open("wb") as file:
                file.truncate(2 * _NUMBERS)
                far = random.integers(WIDTH, _WINDOWS - WIDTH, 14)
                starts = random.permutation([0, *far, _WINDOWS - 1]).tolist()
                self.parts.append({})
                self.order += [which * _WINDOWS + start for start in starts]
                for start in starts:
                    numbers = random.integers(1, 30_000, WIDTH, dtype="<i2")
                    file.seek(2 * start)
                    file.write(numbers.tobytes())
                    self.parts[-1][start] = torch.from_numpy(numbers)
                    self.expected[which * _WINDOWS + start] = self.parts[-1][start]
        self._stats = [path.stat() for path in self.paths]
        self.positions = Positions(self._stats)

    def touched(self) -> tuple[str, ...]:
        """The files in the folder that are new, are gone, or were written to."""
        known = dict(zip((path.name for path in self.paths), self._stats, strict=True))
        found = {path.name: path.stat() for path in self.folder.iterdir()}
        return tuple(
            name
            for name in sorted(known.keys() | found.keys())
            if not (name in known and name in found)
            or known[name].st_mtime_ns != found[name].st_mtime_ns
        )


def gather(answer: type) -> tuple[Epochs, ...]:
    """Use the class in main, then run it with 2, 0, and 4 workers, up to the first mistake."""
    files, runs = _Recordings(), list[Epochs]()
    call = f"{answer.__name__}(path)"
    datasets = list[Any]()
    for path, expected in zip(files.paths, files.parts, strict=True):
        dataset = made(answer, path, call=call, within=LONG)
        length = made(lambda dataset=dataset: len(dataset), call="len(dataset)", within=LONG)
        if length != _WINDOWS:
            size = {"numbers": _NUMBERS, "windows": _WINDOWS, "width": WIDTH}
            not_yet("other-length", length=length, **size)
        if not datasets:
            wrong = read(dataset, sorted(expected), expected)
            reject(wrong, "in main, before there are workers")
        datasets.append(dataset)
    all_three: ConcatDataset[Any] = ConcatDataset(datasets)
    watched = files.positions
    for workers, epochs in RUNS:
        when = "in main, between two runs" if runs else "in main, before there are workers"
        for path, dataset, expected in zip(files.paths, datasets, files.parts, strict=True):
            wrong = read(dataset, sorted(expected), expected)
            reject(wrong, f"{when}, in the dataset of `{path.name}`", "other-sample-of-three")
        watched.begin()
        samples = deliver(
            all_three,
            files.expected,
            files.order,
            workers,
            epochs,
            collate_fn=watched.collate,
            worker_init_fn=watched.watch,
        )
        runs.append(Epochs(samples, watched.moved, watched.opened, files.touched()))
        if not samples.is_right() or watched.moved or watched.opened > _MOST or files.touched():
            break
    return tuple(runs)


def judge(runs: tuple[Epochs, ...]) -> Result:
    """Correct if every window arrived, in the workers and in main."""
    for epochs in runs:
        samples, lead = epochs.samples, where(epochs.samples.workers)
        if epochs.touched:
            not_yet("folder-changed", where=lead, file=epochs.touched[0])
        if epochs.opened > _MOST:
            not_yet("descriptors", where=lead, opened=epochs.opened, most=_MOST)
        if epochs.moved:
            how = "raised" if samples.run.error else samples.code
            code = f"moved-and-{how}" if how else "moved"
            not_yet(code, where=lead, error=samples.run.error, **samples.fields)
        ended_well(samples.run, lead)
        all_came(samples, lead)
        if samples.wrong:
            not_yet(f"{samples.code}-windows", where=lead, **samples.fields)
    return correct(windows=runs[-1].samples.samples)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Windows),
    at_most=60,
)
