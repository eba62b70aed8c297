"""How does the loader run without workers?

The same loop, in the same order, with `num_workers=0`. What is different then comes from the
workers; what is the same does not.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench

_LONGEST: Final = 11.0  # seconds


def needed(evidence: Evidence | None) -> bool:
    """Where there are workers that can be left out."""
    return evidence is not None and evidence.parts.workers > 0


def ask(bench: Bench) -> Run:
    """Run it with `num_workers=0`."""
    seconds = max(min(4.0, bench.seconds / 2), min(_expected(bench), _LONGEST))
    bench.change(num_workers=0)
    epochs = max(bench.epochs, 2) if bench.loop is None else bench.epochs
    return trial.run(bench, seconds=seconds, patience=4.0, epochs=epochs)


def _expected(bench: Bench) -> float:
    # For as many epochs as came with workers. An epoch tells more than its beginning.
    run = bench.known.run if bench.known is not None else None
    if run is None or not any(run.finished):
        return 0.0
    return 1.5 * bench.inner.num_workers * run.pace * run.batches + 1.0


def cut_short(stopped: str, code: int | None, mark: int) -> Run:
    """The process died in a sample, or could not be interrupted."""
    if stopped:
        return Run(end="hung", error="could not be interrupted")
    return Run(end="main died", error=f"ended with exit code {code}", codes=(code,))


EXPERIMENT: Final = Experiment("alone", 18.0, needed, ask, cut_short)
