"""Grade "03.transfer": the same thumbnails of every scan, in little memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.material.scans import WANTED, Scans
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.memory import Empty, beyond, finished
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made
from dltutor.lessons.lesson_03.material import form_and_pixels, fresh_scans

# Of each scan; a slice is 1 MB. Whoever keeps the wanted slices of each takes 48 MB.
_SLICES: Final = (12, WANTED, 70, 5, *[8] * 8)
_FORM: Final = "uint8 (4, 64, 64)"  # of the thumbnails
_MOST: Final = 40  # MB that a process may take beyond what an empty run takes
_EPOCHS: Final = {0: 2, 2: 1, 4: 1}  # by the number of workers; what changes in main shows with 0
_MAKING: Final = 10  # seconds
_RUN: Final = 15  # seconds


@dataclass(frozen=True)
class Reading:
    """How the scans were read with an answer.

    Args:
        workers: How many.
        run: How it ended.
        came: How many samples came.
        wrong: How many slices each scan has whose sample is another than before -> its form.
        took: The most memory that a process took at once, beyond what an empty run takes; in MB.
        changed: The files of the scans' folder that are not as they were.
    """

    workers: int
    run: Ending
    came: int
    wrong: dict[int, str]
    took: int
    changed: Sequence[str] = ()


class _Gauged(Dataset[Any]):
    # Sends with each sample what its process, or a child of it, took at most since it began.
    def __init__(self, dataset: Dataset[Any], began: int | None) -> None:
        self.dataset, self.began = dataset, began

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # as the starter has

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


def gather(answer: type) -> tuple[Reading, ...]:
    """Two epochs without workers, then one with 2 and with 4."""
    scans = fresh_scans(_SLICES)
    folder = next(iter(scans)).parent
    empty = _empty(scans)
    before, began = contents(folder), _fresh_peak()
    dataset = made(answer, list(scans), call=f"{answer.__name__}(paths)", within=_MAKING)
    readings = []
    for workers in _EPOCHS:
        seen = _read(_Gauged(dataset, None if workers else began), workers, scans)
        took = round(beyond(empty, {workers: seen.took})[workers])
        readings.append(seen := replace(seen, took=took, changed=changed(before, folder)))
        if seen.run.end != "finished" or seen.wrong or seen.took > _MOST:
            break
    return tuple(readings)


def _empty(scans: dict[Path, np.ndarray]) -> dict[int, int]:
    # By the number of workers: what processes take here where the thumbnails are there already.
    taken = {}
    for workers in _EPOCHS:
        seen = _read(_Gauged(Empty([*scans.values()]), None), workers, scans)
        finished(seen.run, where(workers))
        taken[workers] = seen.took
    return taken


def _read(dataset: _Gauged, workers: int, scans: dict[Path, np.ndarray]) -> Reading:
    right = [(_FORM, thumbnails.tobytes()) for thumbnails in scans.values()]
    took, wrong = [], {}

    def collect(loader: DataLoader[Any]) -> None:
        for ((index, sample, mb),) in loader:  # none is kept: a view has a whole slice behind it
            took.append(mb)
            form = form_and_pixels(sample)
            if index < len(right) and form != right[index]:
                wrong[_SLICES[index]] = form[0]

    epochs = _EPOCHS[workers]
    run = run_loader(dataset, collect, workers=workers, within=_RUN, epochs=epochs, collate_fn=list)
    return Reading(workers, run, len(took), wrong, max(took, default=0))


def judge(readings: tuple[Reading, ...]) -> Result:
    """Correct if every scan came as before, and no process took much memory for it."""
    for seen in readings:
        place = where(seen.workers)
        much = (
            f"a process took {seen.took} MB beyond what it takes with nothing to unpack; "
            f"{_MOST} are allowed. The longest scan has {max(_SLICES)} slices of 1 MB, and "
            f"{WANTED} of each scan are wanted. How many are in memory at the same moment?"
        )
        slow = f"And {much}" if seen.took > _MOST else "What does your class wait for?"
        ended_well(seen.run, place, hung=slow)
        if seen.came != (scans := _EPOCHS[seen.workers] * len(_SLICES)):
            not_yet(f"{place}, {seen.came} of {scans} samples come. Each has to, in each epoch.")
        for slices, form in seen.wrong.items():
            others = "others. Which slices does `evenly` choose, and which pixels are kept?"
            what = others if form == _FORM else f"`{form}`. They were `{_FORM}`."
            not_yet(f"{place}, the thumbnails of a scan with {slices} slices are {what}")
        if seen.took > _MOST:
            not_yet(f"{place}, {much}")
        if seen.changed:
            not_yet(f"{place}: the scans' folder is not as it was. `{seen.changed[0]}` differs.")
    return correct(
        "Every scan comes with the same thumbnails, with 0, 2 and 4 workers. No process took more "
        f"than {_MOST} MB at once, though the longest scan has {max(_SLICES)} MB."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Scans),
    runs=f"makes your class on {len(_SLICES)} fresh scans, and runs it with 0, 2 and 4 workers",
    at_most=_MAKING + len(_EPOCHS) * _RUN + 5,
)
