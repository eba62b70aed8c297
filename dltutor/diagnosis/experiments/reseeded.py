"""How does the loader run without workers and with another seed?

This is asked when samples with workers differ from those without, or what the loop returns does.
Random samples change with the seed anyway. If the samples don't change with the seed, the ones from
the workers are wrong.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.difference import results_differ, with_workers


def needed(evidence: Evidence | None) -> bool:
    """Ask if an epoch's samples, or the loop's results, differ from those without workers."""
    if evidence is None:
        return False
    found = with_workers(evidence)
    if found is not None and found.any and found.whole:
        return True
    alone = evidence.alone
    return alone is not None and results_differ(evidence.run, alone)


def ask(bench: Bench) -> Run:
    """Run it with `num_workers=0` and another seed."""
    bench.change(num_workers=0)
    return trial.run(bench, seconds=min(4.0, bench.seconds / 2), patience=4.0, epochs=1, seed=1)


EXPERIMENT: Final = Experiment("reseeded", 10.0, needed, ask)
