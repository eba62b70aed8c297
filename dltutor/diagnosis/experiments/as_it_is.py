"""How does the loader run as it is?

If there's a training loop, it runs as many epochs as you asked for. Without one, the loader runs at
least two epochs, so that repeats can show.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.worker_memory import fill_holes


def needed(evidence: Evidence | None) -> bool:
    """Always ask."""
    return True


def ask(bench: Bench) -> Run:
    """Run it once, unchanged."""
    fill_holes()  # or luck decides whether the workers' memory is seen to grow
    epochs = max(bench.epochs, 2) if bench.loop is None else bench.epochs
    return trial.run(bench, seconds=min(8.0, bench.seconds / 2), epochs=epochs)


def cut_short(stopped: str, code: int | None, mark: int) -> Run:
    """Record a main process that died or couldn't be interrupted."""
    if stopped:
        return Run(end="hung", error=f"main couldn't be interrupted ({stopped})")
    return Run(end="main died", error=f"main ended with exit code {code}")


EXPERIMENT: Final = Experiment("run", 16.0, needed, ask, cut_short)
