"""How does the loader run, just as it is?

With its training loop, if there is one; as many epochs as were asked for, and two at least without
a loop, so that what repeats can be seen.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench


def needed(evidence: Evidence | None) -> bool:
    """Always."""
    return True


def ask(bench: Bench) -> Run:
    """Run it once, unchanged."""
    epochs = max(bench.epochs, 2) if bench.loop is None else bench.epochs
    return trial.run(bench, seconds=min(8.0, bench.seconds / 2), epochs=epochs)


def cut_short(stopped: str, code: int | None, mark: int) -> Run:
    """The main process of the run died, or could not be interrupted."""
    if stopped:
        return Run(end="hung", error=f"main could not be interrupted ({stopped})")
    return Run(end="main died", error=f"main ended with exit code {code}")


EXPERIMENT: Final = Experiment("run", 16.0, needed, ask, cut_short)
