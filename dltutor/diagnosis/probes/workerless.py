"""Would batches arrive sooner without workers?

Alternate between the loader with forked workers and `num_workers=0`, and leave out the time that
the workers take to start. If the workers gain too little, run them once more to find the line that
takes the time.
"""

from __future__ import annotations

import multiprocessing
import time
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import pace
from dltutor.diagnosis.running.busiest import Busiest
from dltutor.diagnosis.running.notes import Notes
from dltutor.diagnosis.running.pace import Paces
from dltutor.diagnosis.running.subject import Subject

CHEAP: Final = 0.0003  # seconds per sample; below this, a sample is cheap
LONG: Final = 3000  # the fewest samples in a long epoch
_NO_GAIN: Final = 0.85  # share of the time without workers; if batches take more, the gain is small
# The same for more than two workers that almost never compute, so that each should add speed.
_NO_GAIN_OF_MANY: Final = 0.7
_IDLE: Final = 0.9  # a worker that waits for a larger share of the time almost never computes
_SUSPECT: Final = 0.6  # share of the time without workers; if batches took more, measure again
SLOWER: Final = 1.5  # workers do harm if batches take this many times as long as without them
LOST: Final = 2.0  # seconds that workers add to an epoch; less isn't worth mentioning
_COSTLY: Final = 0.0015  # seconds per sample; above this, sending hardly matters
_BATCHES: Final = 20  # the fewest batches to compare
_FEW: Final = 8  # the fewest batches to compare if samples are costly


def needed(evidence: Evidence) -> bool:
    """Return whether there are many very cheap samples, or workers gained too little so far."""
    if not evidence.run.well or not evidence.parts.workers:
        return False
    parts, samples, alone, run = evidence.parts, evidence.samples, evidence.alone, evidence.run
    if samples is None or not samples.looked:
        return False
    if alone is not None and run.pace > 0 < alone.pace:
        seen, times = min(alone.batches, run.batches), run.pace / alone.pace
        lost = (run.pace - alone.pace) * (parts.batches or run.batches)
        if times > SLOWER and lost > LOST and seen >= _BATCHES:
            return True
        # In both runs, main inspected each batch, but workers went on in the meantime, so they
        # seem faster than they are.
        costly = samples.typical > _COSTLY and parts.workers > 1
        # If samples wait instead of computing, each worker should add speed even on one core.
        waits = alone.computed < alone.pace * alone.batches / 2
        suspect = _SUSPECT / (parts.workers / 2 if waits else 1)
        if costly and times > suspect and seen >= _FEW:
            return True
    return (
        samples.typical < CHEAP
        and (parts.length or 0) >= LONG
        and (parts.batches or _BATCHES) >= _BATCHES
    )


def ask(subject: Subject) -> Paces:
    """Time the loader with workers and without and, if they gain little, find the line to blame."""
    loader = pace.forked(subject)
    workers, prefetch = loader.num_workers, loader.prefetch_factor
    blocked: list[float] = []

    def as_is() -> float | None:
        vars(loader).update(num_workers=workers, prefetch_factor=prefetch)
        subject.change(method="fork")
        looks: list[tuple[int, float, float]] = []
        took = pace.of_a_batch(loader, seconds=0.5, take=lambda _: looks.append(_look()))
        # Drop the first third, in which workers may still be starting, and each look that doesn't
        # see all workers, because one may have exited.
        looks = [each for each in looks[len(looks) // 3 :] if each[0] == workers]
        if len(looks) > 1:
            (_, wanted, began), (_, wanted_later, ended) = looks[0], looks[-1]
            lived = max(workers * (ended - began), 1e-3)
            blocked.append(1 - (wanted_later - wanted) / lived)
        return took

    def changed() -> float | None:
        subject.change(num_workers=0)
        return pace.of_a_batch(loader, seconds=0.5)

    found = pace.in_turns(as_is, changed, seconds=subject.seconds - 1.5)
    found = replace(found, blocked=min(blocked, default=0.0))
    if not in_vain(found, workers):
        return found
    notes = Notes()
    vars(loader).update(num_workers=workers, prefetch_factor=prefetch)
    subject.change(method="fork")
    subject.in_workers(lambda worker: Busiest(notes))
    pace.of_a_batch(loader, seconds=0.7)
    # Keep each worker's last note, and report the worker whose busiest line has the largest share.
    last = {pid: result for pid, *result in notes.read()}
    line, share, inside = max(last.values(), key=itemgetter(1), default=("", 0.0, 0.0))
    return replace(found, line=line, share=share, inside=inside)


def in_vain(paces: Paces, workers: int) -> bool:
    """Return whether this number of workers gains too little, compared with none."""
    many = workers > 2 and paces.blocked > _IDLE
    return paces.times >= (_NO_GAIN_OF_MANY if many else _NO_GAIN)


def _look() -> tuple[int, float, float]:
    # Return how many workers there are, for how many seconds in all they've run or waited for a
    # core, and what time it is.
    wanted, workers = 0.0, multiprocessing.active_children()
    for each in workers:
        with suppress(OSError):
            computed, waited, _ = Path(f"/proc/{each.pid}/schedstat").read_text().split()
            wanted += (int(computed) + int(waited)) / 1e9
    return len(workers), wanted, time.monotonic()


EXPERIMENT: Final = probe("workerless", 9.0, needed, ask)
