"""Grade "03.transfer": the same thumbnails of every scan, in little memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.material.scans import SIDE, WANTED, Scans, evenly
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made
from dltutor.lessons.lesson_03.material import fresh_scans

_SLICES: Final = (12, WANTED, 70, 5)  # of each scan; a slice is 1 MB
_MOST: Final = 40  # MB that a process may take
_WORKERS: Final = (0, 2, 4)
_MAKING: Final = 10  # seconds
_EPOCH: Final = 15  # seconds


@dataclass(frozen=True)
class Epoch:
    """An epoch with an answer.

    Args:
        workers: How many.
        run: How it ended.
        came: The number of each scan that came, in order.
        wrong: How many slices the scans have whose sample is another than before.
        took: The most memory that a process took at once beyond what it had, in MB.
    """

    workers: int
    run: Ending
    came: tuple[int, ...]
    wrong: tuple[int, ...]
    took: int


class _Gauged(Dataset[Any]):
    # Sends with each sample what its process, or a child of it, took at most since it began.
    def __init__(self, dataset: Dataset[Any], began: int | None) -> None:
        self.dataset, self.began = dataset, began

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> tuple[int, Any, int]:
        if self.began is None:
            self.began = _fresh_peak()
        sample = self.dataset[index]
        return index, sample, _peak() - self.began


def _fresh_peak() -> int:
    """The peak from now on: freed memory that an answer could use unseen goes back (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak: man proc
    return _peak()


def _peak() -> int:
    return max(getrusage(who).ru_maxrss for who in (RUSAGE_SELF, RUSAGE_CHILDREN)) >> 10


def gather(answer: type) -> tuple[Epoch, ...]:
    """An epoch with 0, 2 and 4 workers."""
    scans = fresh_scans(_SLICES)
    paths = [path for path, _ in scans]
    right = [_thumbnails(values) for _, values in scans]
    epochs = []
    for workers in _WORKERS:
        began = _fresh_peak()
        call = f"{answer.__name__}(paths)"
        dataset = made(answer, list(paths), call=call, within=_MAKING)
        arrived: list[Any] = []

        def collect(loader: DataLoader[Any], arrived: list[Any] = arrived) -> None:
            arrived.extend(sample for batch in loader for sample in batch)

        gauged = _Gauged(dataset, None if workers else began)
        run = run_loader(gauged, collect, workers=workers, within=_EPOCH, collate_fn=list)
        known = [each for each in arrived if each[0] < len(scans)]
        wrong = [_SLICES[n] for n, sample, _ in known if not _same(sample, right[n])]
        took = max((mb for *_, mb in arrived), default=0)
        came = tuple(n for n, *_ in arrived)
        epochs.append(Epoch(workers, run, came, tuple(wrong), took))
        if run.end != "finished" or took > _MOST:
            break
    return tuple(epochs)


def _thumbnails(values: list[int]) -> np.ndarray:
    side = SIDE // 16
    return np.stack([np.full((side, side), value, np.uint8) for value in evenly(values)])


def _same(sample: Any, right: np.ndarray) -> bool:
    try:
        return np.array_equal(np.asarray(sample), right)
    except Exception:  # an array of anything
        return False


def judge(epochs: tuple[Epoch, ...]) -> Result:
    """Correct if every scan came as before, and no process took much memory for it."""
    for epoch in epochs:
        place = where(epoch.workers)
        ended_well(epoch.run, place)
        if len(epoch.came) != len(_SLICES):
            not_yet(f"{place}, {len(epoch.came)} of {len(_SLICES)} scans come. Each has to.")
        if epoch.wrong:
            slices = " and ".join(map(str, epoch.wrong))
            not_yet(
                f"{place}, {len(epoch.wrong)} of {len(_SLICES)} samples are not what they were: "
                f"those of the scans with {slices} slices. Which slices does `evenly` choose?"
            )
        if epoch.took > _MOST:
            not_yet(
                f"{place}, a process took about {round(epoch.took, -1)} MB at once. The longest "
                f"scan has {max(_SLICES)} slices of 1 MB, and {WANTED} of them are wanted. How "
                "many are in memory at the same moment?"
            )
    return correct(
        "Every scan comes with the same thumbnails, with 0, 2 and 4 workers. No process took more "
        f"than {_MOST} MB at once, though the longest scan has {max(_SLICES)} MB."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Scans),
    runs="makes your class on four fresh scans, and runs it with 0, 2 and 4 workers",
    at_most=len(_WORKERS) * (_MAKING + _EPOCH) + 5,
)
