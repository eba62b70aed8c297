"""Would each step be faster if the loop kept one iterator?

Take as many batches as the loop takes from each of its iterators. Alternate between making a new
iterator each time, as the loop does, and taking the same number of batches from one iterator.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Final

from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.running import pace
from dltutor.diagnosis.running.pace import Paces
from dltutor.diagnosis.running.subject import Subject

if TYPE_CHECKING:
    from dltutor.diagnosis.evidence import Evidence

FEW: Final = 2  # batches taken from one iterator
TIMES: Final = 3  # iterators that are left so early
_STEPS: Final = 4


def left_early(run: Measures) -> int:
    """Count the iterations a loop left after a batch or two, if most batches came that way."""
    batches = [len(each) for each in run.passes]
    early = [
        count
        for count, finished in zip(batches, run.finished, strict=False)
        if 0 < count <= FEW and not finished
    ]
    if run.end == "enough" and early and batches[-1] <= FEW:
        early.pop()  # the doctor itself stopped the last one
    return len(early) if len(early) >= TIMES and 2 * sum(early) > sum(batches) else 0


def needed(evidence: Evidence) -> bool:
    """Ask if a loop starts many iterations and leaves each after a batch or two."""
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
    # Workers may take so long to start that only a step or two showed up.
    alone = evidence.alone
    cut = evidence.run.end == "enough" and len(evidence.run.passes) <= TIMES
    return cut and alone is not None and alone.well and left_early(alone) > 0


def ask(subject: Subject) -> Paces:
    """Time both, in seconds per step, not counting the first."""
    subject.change(method="fork")  # other start methods are slower, so they'd show it, too
    loader = subject.inner
    # If workers stay, the next iteration waits for the batches they're still making.
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
