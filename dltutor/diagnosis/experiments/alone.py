"""How does the loader run without workers?

This is the same loop in the same order, with `num_workers=0`. Whatever is different now comes from
the workers, and whatever stays the same doesn't.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench

_LONGEST: Final = 11.0  # seconds


def needed(evidence: Evidence | None) -> bool:
    """Ask if there are workers to leave out."""
    return evidence is not None and evidence.parts.workers > 0


def ask(bench: Bench) -> Run:
    """Run it with `num_workers=0`."""
    seconds = max(min(4.0, bench.seconds / 2), min(_expected(bench), _LONGEST))
    bench.change(num_workers=0)
    epochs = max(bench.epochs, 2) if bench.loop is None else bench.epochs
    return trial.run(bench, seconds=seconds, patience=4.0, epochs=epochs)


def _expected(bench: Bench) -> float:
    # Time for as many epochs as finished with workers. A whole epoch says more than its start.
    run = bench.known.run if bench.known is not None else None
    if run is None or not any(run.finished):
        return 0.0
    return 1.5 * bench.inner.num_workers * run.pace * run.batches + 1.0


def cut_short(stopped: str, code: int | None, mark: int) -> Run:
    """Record a process that died in a sample or couldn't be interrupted."""
    if stopped:
        return Run(end="hung", error="main couldn't be interrupted")
    return Run(end="main died", error=f"main ended with exit code {code}", codes=(code,))


EXPERIMENT: Final = Experiment("alone", 18.0, needed, ask, cut_short)
