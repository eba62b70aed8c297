"""Grade "03.transfer": the same thumbnails of every scan, in much less memory."""

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

from dltutor.failures.data.scans import WANTED, Scans
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.memory import Empty, beyond, finished
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made
from dltutor.lessons.lesson_03.material import form_and_pixels, fresh_scans

# How many slices each scan has. A slice is 1 MB, so keeping the wanted ones of all takes 48 MB.
_SLICES: Final = (12, WANTED, 70, 5, *[8] * 8)
_FORM: Final = "uint8 (4, 64, 64)"  # of the thumbnails
_MOST: Final = 40  # MB that a process may take up beyond an empty run
_EPOCHS: Final = {0: 2, 2: 1, 4: 1}  # workers -> epochs; what changes in main shows without any
_MAKING: Final = 10  # seconds
_RUN: Final = 15  # seconds


@dataclass(frozen=True)
class Reading:
    """How the scans were read with an answer.

    Args:
        workers: How many.
        run: How it ended.
        came: How many samples arrived.
        wrong: For each scan whose sample isn't the one from before: how many slices -> its form.
        took: The most memory that a process took up at once, beyond an empty run; in MB.
        changed: The files in the scans' folder that changed, are new, or are gone.
    """

    workers: int
    run: Ending
    came: int
    wrong: dict[int, str]
    took: int
    changed: Sequence[str] = ()


class _Gauged(Dataset[Any]):
    # Sends with each sample the most that its process, or a child of it, took up since it began.
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
    """Start a new peak, after glibc returns freed memory that an answer could use unseen."""
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
    # Workers -> what a process takes up on this machine if the thumbnails are there already.
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
        for (
            (index, sample, mb),
        ) in loader:  # none is kept, because a view keeps a whole slice alive
            took.append(mb)
            form = form_and_pixels(sample)
            if index < len(right) and form != right[index]:
                wrong[_SLICES[index]] = form[0]

    epochs = _EPOCHS[workers]
    run = run_loader(dataset, collect, workers=workers, within=_RUN, epochs=epochs, collate_fn=list)
    return Reading(workers, run, len(took), wrong, max(took, default=0))


def judge(readings: tuple[Reading, ...]) -> Result:
    """Correct if every scan arrived as before, and no process took up much memory for it."""
    for seen in readings:
        lead, run, large = where(seen.workers), seen.run, seen.took > _MOST
        sizes = {"took": seen.took, "most": _MOST, "longest": max(_SLICES), "wanted": WANTED}
        if run.end == "hung" and large:
            seconds = f"{run.deadline:g}"
            not_yet("hung-and-large", where=lead, seconds=seconds, stood=run.stood, **sizes)
        ended_well(run, lead)
        if seen.came != (scans := _EPOCHS[seen.workers] * len(_SLICES)):
            not_yet("missing", where=lead, came=seen.came, scans=scans)
        for slices, form in seen.wrong.items():
            code = "other-thumbnails" if form == _FORM else "other-form"
            not_yet(code, where=lead, slices=slices, form=form)
        if large:
            not_yet("too-large", where=lead, **sizes)
        if seen.changed:
            not_yet("files-changed", where=lead, file=seen.changed[0])
    return correct()


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Scans),
    at_most=_MAKING + len(_EPOCHS) * _RUN + 5,
)
