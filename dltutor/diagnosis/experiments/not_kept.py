"""How does the loop run with `persistent_workers=False`?

Every iteration then has its own iterator, so no other iteration can restart it.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench


def needed(evidence: Evidence | None) -> bool:
    """Ask if an iteration was restarted before its end and then asked for more."""
    return (
        evidence is not None
        and evidence.run.well
        and evidence.parts.persistent
        and evidence.run.resumed > 0
    )


def ask(bench: Bench) -> Run:
    """Run it with `persistent_workers=False`."""
    bench.change(persistent_workers=False)
    return trial.run(bench, seconds=min(6.0, bench.seconds / 2))


EXPERIMENT: Final = Experiment("not_kept", 14.0, needed, ask)
