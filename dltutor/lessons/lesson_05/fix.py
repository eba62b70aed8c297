"""Grade "05.fix", which asks for windows of recordings that are too large to load.

If workers share the position of an open file, it's luck whether a sample is wrong, but not whether
a worker moves the position. So `Positions` watches for moves.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import ConcatDataset, default_collate

from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import correct, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_05.delivery import (
    LONG,
    RUNS,
    Delivered,
    check_delivery,
    check_in_main,
    deliver,
)
from dltutor.lessons.lesson_05.helpers import WIDTH, Windows

_NUMBERS: Final = 2**28 - 9  # numbers in a recording of 512 MB, which is mostly a hole
_WINDOWS: Final = _NUMBERS - WIDTH + 1
_MOST: Final = 4  # the most descriptors that a process may have open for one recording


@dataclass(frozen=True)
class Epochs:
    """A record of what an answer did with a given number of workers.

    Args:
        samples: How the run ended, how many samples arrived, and how many were wrong.
        moved: Whether a worker moved the position of a file that main had open.
        opened: How many descriptors main, or a worker with too many, had open for a recording.
    """

    samples: Delivered
    moved: bool = False
    opened: int = 0


class Positions:
    """A detector for workers that move main's position in a file, and for too many descriptors.

    Main must not read at the same time, so that only a worker can move a position. Each worker
    compares positions at every function call, and so even notices a move that the answer undoes.

    Args:
        paths: The files to watch.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = {str(path.resolve()) for path in paths}
        self._held: list[int] = []
        # Two bytes: whether a position moved, and the number of descriptors if that's too high.
        self._shared = mmap.mmap(-1, 2)

    def begin(self) -> None:
        """Watch the files that main has open now, in all workers that main forks later.

        `moved` is False again, and `opened` forgets the counts from earlier workers.
        """
        while self._held:
            os.close(self._held.pop())
        # A duplicate shares the descriptor's position, and stays open if a worker closes the file.
        self._held = [os.dup(descriptor) for descriptor, _ in self._open()]
        self._before = self._positions()
        self._shared[:] = bytes(2)

    def watch(self, worker: int) -> None:
        """Watch the positions in a worker, which calls this as its `worker_init_fn`."""
        sys.setprofile(self._look)

    def collate(self, samples: list[Any]) -> Any:
        """Make a batch, as a `collate_fn` does.

        If this process has more than `_MOST` descriptors open for one file, record how many.
        """
        if (count := self._opened()) > _MOST:
            self._shared[1] = max(self._shared[1], min(count, 255))
        return default_collate(samples)

    @property
    def moved(self) -> bool:
        """Whether a worker has moved the position of a file that main has open."""
        return bool(self._shared[0])

    @property
    def opened(self) -> int:
        """Main's number of descriptors open for one file, or a higher one that a worker had."""
        return max(self._opened(), self._shared[1])

    def _open(self) -> list[tuple[int, str]]:
        files = psutil.Process().open_files()
        return [(each.fd, each.path) for each in files if each.path in self._paths]

    def _opened(self) -> int:
        counts = Counter(path for descriptor, path in self._open() if descriptor not in self._held)
        return max(counts.values(), default=0)

    def _positions(self) -> list[int]:
        return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in self._held]

    def _look(self, frame: object, event: str, called: object) -> None:
        if self._positions() != self._before:
            self._shared[0] = 1


def _write() -> dict[Path, dict[int, torch.Tensor]]:
    # Write three recordings, with numbers where the check reads windows, and holes in between.
    folder, random = Path(tempfile.mkdtemp()), np.random.default_rng(55)
    written: dict[Path, dict[int, torch.Tensor]] = {}
    for name in ("monday.bin", "tuesday.bin", "friday.bin"):
        windows = written[folder / name] = {}
        with open(folder / name, "wb") as file:
            file.truncate(2 * _NUMBERS)
            far = random.integers(WIDTH, _WINDOWS - WIDTH, 14)
            for start in random.permutation([0, *far, _WINDOWS - 1]).tolist():
                numbers = random.integers(1, 30_000, WIDTH, dtype="<i2")
                file.seek(2 * start)
                file.write(numbers.tobytes())
                windows[start] = torch.from_numpy(numbers)
    return written


def run(answer: type) -> Iterator[Epochs]:
    """For 2, 0, and 4 workers in turn, read samples in main and in a loader, and yield a record."""
    written, datasets = _write(), list[Any]()
    when = "in main, before any worker started"
    for path, windows in written.items():
        dataset = made(answer, path, call=f"{answer.__name__}(path)", within=LONG)
        length = made(lambda dataset=dataset: len(dataset), call="len(dataset)", within=LONG)
        if length != _WINDOWS:
            size = {"numbers": _NUMBERS, "windows": _WINDOWS, "width": WIDTH}
            not_yet("other-length", length=length, **size)
        if not datasets:
            check_in_main(dataset, windows, when)
        datasets.append(dataset)
    # Chain the recordings, so that all workers read the same file at the same time.
    all_three: ConcatDataset[Any] = ConcatDataset(datasets)
    expected = {
        number * _WINDOWS + start: window
        for number, windows in enumerate(written.values())
        for start, window in windows.items()
    }
    watched = Positions(written)
    for workers, epochs in RUNS:
        for dataset, (path, windows) in zip(datasets, written.items(), strict=True):
            there = f"{when}, in the dataset of `{path.name}`"
            check_in_main(dataset, windows, there, "other-sample-of-three")
        watched.begin()
        how = {"collate_fn": watched.collate, "worker_init_fn": watched.watch}
        samples = deliver(all_three, expected, [*expected], workers, epochs, **how)
        yield Epochs(samples, watched.moved, watched.opened)
        when = "in main, between two runs"


def judge(epochs: Epochs) -> None:
    """Raise `Rejected` unless all windows arrived and are right.

    A worker must not move the position of a file that main has open, either, and no process may
    have more than four descriptors open for one recording.
    """
    samples = epochs.samples
    if epochs.opened > _MOST:
        not_yet("descriptors", opened=epochs.opened, most=_MOST, **samples.fields)
    if epochs.moved:
        code = "moved"
        if samples.run.error:
            code = "moved-and-raised"
        elif samples.wrong:
            code = "moved-and-wrong"
        not_yet(code, error=samples.run.error, **samples.fields)
    check_delivery(samples, wrong="wrong-windows")


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda runs: correct(windows=runs[-1].samples.samples),
    look=partial(a_fixed_class, starter=Windows),
    at_most=60,
)
