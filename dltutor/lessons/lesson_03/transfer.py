"""Grade "03.transfer", which asks for the same thumbnails from every scan in much less memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, Final

import numpy as np
from torch.utils.data import Dataset

from dltutor.failures.data.scans import WANTED, Scans
from dltutor.lessons.engine.endings import Ending, arrivals, check_ending, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.memory import Empty, finished, trim_heap
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_03.helpers import form_and_pixels, fresh_scans

# How many slices each scan has. A slice is 1 MB, so keeping the wanted slices of all scans takes
# 48 MB, which is more than `_MOST`.
_SLICES: Final = (12, WANTED, 70, 5, *[8] * 8)
_FORM: Final = "uint8 (4, 64, 64)"  # the dtype and shape of a scan's thumbnails
_MOST: Final = 40  # the most MB that a process may use beyond an empty run
# The number of epochs for each number of workers. The second epoch without workers shows whether
# the first epoch changed anything.
_EPOCHS: Final = {0: 2, 2: 1, 4: 1}
_MAKING: Final = 10  # time limit in seconds to make the dataset
_RUN: Final = 15  # time limit in seconds for the run with each number of workers


@dataclass(frozen=True)
class Reading:
    """A record of how an answer read the scans.

    Args:
        workers: Number of workers.
        run: How the run ended.
        came: How many samples arrived.
        wrong: The form of a wrong sample (see `form_and_pixels`), by its scan's slice count.
        took: The most MB that a process used beyond an empty run.
    """

    workers: int
    run: Ending
    came: int
    wrong: dict[int, str]
    took: int


class _Gauged(Dataset[Any]):
    # Return each sample with its index, and with the MB by which the process's peak memory grew.
    def __init__(self, dataset: Dataset[Any], began: int | None) -> None:
        self.dataset, self.began = dataset, began

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # the check requires __len__

    def __getitem__(self, index: int) -> tuple[int, Any, int]:
        if self.began is None:
            self.began = _fresh_peak()
        sample = self.dataset[index]
        return index, sample, _peak() - self.began


def _fresh_peak() -> int:
    trim_heap()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak (`man proc`)
    return _peak()


def _peak() -> int:
    return getrusage(RUSAGE_SELF).ru_maxrss >> 10


def run(answer: type) -> Iterator[Reading]:
    """Yield a record of two epochs without workers, one epoch with 2 workers, and one with 4."""
    scans = fresh_scans(_SLICES)
    empty, began = _empty(scans), _fresh_peak()
    dataset = made(answer, list(scans), call=f"{answer.__name__}(paths)", within=_MAKING)
    for workers in _EPOCHS:
        seen = _read(_Gauged(dataset, None if workers else began), workers, scans)
        yield replace(seen, took=max(0, seen.took - empty[workers]))


def _empty(scans: dict[Path, np.ndarray]) -> dict[int, int]:
    # For each number of workers, return how many MB a process uses if the thumbnails already exist.
    taken = {}
    for workers in _EPOCHS:
        seen = _read(_Gauged(Empty([*scans.values()]), None), workers, scans)
        finished(seen.run, where(workers))
        taken[workers] = seen.took
    return taken


def _read(dataset: _Gauged, workers: int, scans: dict[Path, np.ndarray]) -> Reading:
    right = [(_FORM, thumbnails.tobytes()) for thumbnails in scans.values()]

    def note(sample: tuple[int, Any, int]) -> tuple[int, tuple[str, bytes], int]:
        # Keep only the bytes of the thumbnails, because a view would keep a whole slice alive.
        index, thumbnails, took = sample
        return index, form_and_pixels(thumbnails), took

    epochs = _EPOCHS[workers]
    ending, came = arrivals(dataset, note, workers=workers, within=_RUN, epochs=epochs)
    noted = [each for epoch in came for each in epoch]
    wrong = {
        _SLICES[index]: form[0]
        for index, form, _ in noted
        if index < len(right) and form != right[index]
    }
    took = max((took for *_, took in noted), default=0)
    return Reading(workers, ending, len(noted), wrong, took)


def judge(seen: Reading) -> None:
    """Raise `Rejected` unless the right thumbnails arrived and no process used too much memory."""
    lead, ending, large = where(seen.workers), seen.run, seen.took > _MOST
    if large and ending.end in ("finished", "hung"):  # using too much memory can cause a hang
        sizes = {"took": seen.took, "most": _MOST, "longest": max(_SLICES), "wanted": WANTED}
        not_yet("too-large", where=lead, **sizes)
    check_ending(ending, lead)
    if seen.came != (scans := _EPOCHS[seen.workers] * len(_SLICES)):
        not_yet("missing", where=lead, came=seen.came, scans=scans)
    for slices, form in seen.wrong.items():
        code = "other-thumbnails" if form == _FORM else "other-form"
        not_yet(code, where=lead, slices=slices, form=form)


GRADER: Final = by_runs(
    run,
    judge,
    look=partial(a_fixed_class, starter=Scans),
    at_most=_MAKING + len(_EPOCHS) * _RUN + 5,
)
