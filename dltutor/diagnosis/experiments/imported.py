"""Does the dataset need something that main set up and a new interpreter doesn't have?

This is asked when workers that aren't forked raise an error or deliver samples that differ from
main's. The loader runs with forked workers, then with new ones that get main's values first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from dltutor.diagnosis.evidence import Evidence, Imported, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import globals_of_main, trial
from dltutor.diagnosis.kit.bench import Bench


def needed(evidence: Evidence | None) -> bool:
    """Ask if new workers behave differently from main."""
    if evidence is None or evidence.parts.method not in ("spawn", "forkserver"):
        return False
    run, alone, samples = evidence.run, evidence.alone, evidence.samples
    if alone is None or not alone.well or samples is None or samples.ended or samples.failed:
        return False
    if run.end == "raised":
        return run.raised is not None
    return run.well and not samples.random and not samples.again and unlike(run, alone) > 0


def unlike(run: Run, alone: Run) -> int:
    """Count the samples of the first pass that don't appear without workers."""
    if not run.drawn or not alone.drawn:
        return 0
    mine, own = run.drawn[0], set(alone.drawn[0])
    whole = alone.finished[:1] == (True,)
    return sum(each not in own for each in mine) if whole and own else 0


def ask(bench: Bench) -> Imported:
    """Run it twice, one pass each time."""
    known = bench.known
    alone = known.alone if known is not None else None
    method = bench.method
    packed = globals_of_main.packed(bench)
    own = bench.inner.worker_init_fn
    bench.change(method="fork")
    forked = trial.run(bench, seconds=2.0, patience=3.0, epochs=1, own_loop=True)
    bench.change(method=method)
    if not forked.well:
        return Imported(forked=forked.end, new="")
    folder = tempfile.mkdtemp()
    bench.change(worker_init_fn=globals_of_main.Given(packed, folder, own))
    given = trial.run(bench, seconds=4.0, epochs=1, own_loop=True)
    names = sorted(
        {line for path in Path(folder).glob("*") for line in path.read_text().splitlines()}
    )
    return Imported(
        forked=forked.end,
        forked_unlike=unlike(forked, alone) if alone else 0,
        new=given.end,
        new_unlike=unlike(given, alone) if alone else 0,
        new_batches=given.batches,
        names=tuple(names),
    )


EXPERIMENT: Final = Experiment("imported", 14.0, needed, ask)
