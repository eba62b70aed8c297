"""Would each step be faster if the loop kept one iterator?

Alternate between taking one batch from each of several new iterators, much as the loop does, and
taking the same number of batches from one iterator.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from itertools import islice
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.running import pace
from dltutor.diagnosis.running.pace import Paces
from dltutor.diagnosis.running.subject import Subject

FEW: Final = 2  # an iterator counts as left early after at most this many batches
TIMES: Final = 3  # the fewest iterators that the loop has to leave early
_STEPS: Final = 4


def left_early(run: Measures) -> int:
    """Return how many iterations the loop left after a batch or two.

    Return 0 if they are fewer than three, or if at most half of all batches came from them.
    """
    batches = [len(each) for each in run.passes]
    early = [
        count
        for count, finished in zip(batches, run.finished, strict=False)
        if 0 < count <= FEW and not finished
    ]
    if run.end == "enough" and early and batches[-1] <= FEW:
        early.pop()  # the doctor itself stopped the last iteration
    return len(early) if len(early) >= TIMES and 2 * sum(early) > sum(batches) else 0


def needed(evidence: Evidence) -> bool:
    """Return whether a loop leaves at least three iterations after a batch or two, with workers."""
    return (
        evidence.run.well
        and evidence.parts.workers > 0
        and evidence.parts.loop
        and (evidence.parts.batches or 2 * FEW) >= 2 * FEW
        and _leaves_early(evidence)
    )


def _leaves_early(evidence: Evidence) -> bool:
    if left_early(evidence.run):
        return True
    # If workers take so long to start that the run shows only a few steps, look at the run without
    # workers.
    alone = evidence.alone
    cut = evidence.run.end == "enough" and len(evidence.run.passes) <= TIMES
    return cut and alone is not None and alone.well and left_early(alone) > 0


def ask(subject: Subject) -> Paces:
    """Measure the seconds per step, from the second on, with new iterators and with one."""
    subject.change(method="fork")  # fork starts workers fastest, so other start methods lose more
    loader = subject.inner
    # Keep persistent workers, because the loader reuses them for each new iterator.
    staying = loader.persistent_workers

    def anew() -> float | None:
        seconds = []
        for _ in range(_STEPS):
            began = time.perf_counter()
            next(iter(loader))
            seconds.append(time.perf_counter() - began)
        return sum(seconds[1:]) / (_STEPS - 1)

    def kept() -> float | None:
        with nullcontext(iter(loader)) if staying else pace.left_at_once(loader) as iterator:
            next(iterator)
            began = time.perf_counter()
            taken = sum(1 for _ in islice(iterator, _STEPS - 1))
            took = time.perf_counter() - began
        return took / taken if taken else None

    return pace.in_turns(anew, kept, seconds=subject.seconds, turns=2)


EXPERIMENT: Final = probe("one_iterator", 9.0, needed, ask)
