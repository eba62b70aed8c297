"""Do the workers go on if they are forked while one of your threads holds a lock?

Asked where a loader at hand has run well, and a thread of your process was seen to hold a lock that
the dataset or its module knows. The fork waits for such a moment; the workers have witnesses.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Waits
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.experiments.waits import witnessed
from dltutor.diagnosis.kit.bench import Bench

#: The visit makes its fork while one of the locks is held, or does not ask.


def needed(evidence: Evidence | None) -> bool:
    """Where there are other threads, and forked workers that did not hang."""
    if evidence is None or not evidence.parts.threads or evidence.parts.method != "fork":
        return False
    return evidence.run.well


def ask(bench: Bench) -> Waits:
    """Run it plainly: main itself must not meet the lock."""
    return witnessed(bench, own_loop=True)


EXPERIMENT: Final = Experiment("while_held", 9.0, needed, ask, held=True)
