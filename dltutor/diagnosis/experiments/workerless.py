"""Do the workers deliver faster than no workers?

The loader as it is, in turns with `num_workers=0`; what starting costs is left out.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Paces
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import pace
from dltutor.diagnosis.kit.bench import Bench

CHEAP: Final = 0.0003  # seconds for a sample
LONG: Final = 3000  # samples in an epoch
_SLOWER: Final = 1.5  # times
_LOST: Final = 2.0  # seconds of an epoch that workers cost: less is not worth a word
_BATCHES: Final = 20  # of an epoch, at least


def needed(evidence: Evidence | None) -> bool:
    """Where many samples cost next to nothing each, or workers have been slower already."""
    if evidence is None or not evidence.run.well or not evidence.parts.workers:
        return False
    parts, samples, alone = evidence.parts, evidence.samples, evidence.alone
    seen = alone is not None and min(alone.batches, evidence.run.batches) >= _BATCHES
    if alone is not None and seen and evidence.run.pace > _SLOWER * alone.pace > 0:
        lost = (evidence.run.pace - alone.pace) * (parts.batches or evidence.run.batches)
        if lost > _LOST:
            return True
    return (
        samples is not None
        and samples.looked > 0
        and samples.typical < CHEAP
        and (parts.length or 0) >= LONG
        and (parts.batches or _BATCHES) >= _BATCHES
    )


def ask(bench: Bench) -> Paces:
    """Time both."""
    loader = pace.forked(bench)
    workers, prefetch = loader.num_workers, loader.prefetch_factor

    def as_is() -> float | None:
        vars(loader).update(num_workers=workers, prefetch_factor=prefetch)
        bench.change(method="fork")
        return pace.of_a_batch(loader, seconds=0.5)

    def changed() -> float | None:
        bench.change(num_workers=0)
        return pace.of_a_batch(loader, seconds=0.5)

    return pace.in_turns(as_is, changed, seconds=bench.seconds)


EXPERIMENT: Final = Experiment("workerless", 7.0, needed, ask)
