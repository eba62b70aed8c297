"""Do the workers still run if they're forked while one of your threads holds a lock?

This is asked when an existing loader ran well, and a thread of your process held a lock that the
dataset or its module knows. The fork waits for such a moment, and the workers have witnesses.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Waits
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.experiments.waits import witnessed
from dltutor.diagnosis.kit.bench import Bench

#: The visit forks while one of the locks is held. If none ever is, it doesn't ask.


def needed(evidence: Evidence | None) -> bool:
    """Ask if there are other threads and the forked workers didn't hang."""
    if evidence is None or not evidence.parts.threads or evidence.parts.method != "fork":
        return False
    return evidence.run.well


def ask(bench: Bench) -> Waits:
    """Run a plain loop, so that main itself doesn't need the lock."""
    return witnessed(bench, own_loop=True)


EXPERIMENT: Final = Experiment("while_held", 9.0, needed, ask, held=True)
