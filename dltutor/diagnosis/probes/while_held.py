"""Do the workers still run if they're forked while one of your threads holds a lock?

The doctor asks this if the loader ran well, but another thread in your process holds a lock that
the loader's parts or your modules refer to. The doctor forks while a thread holds such a lock.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.probes import waits
from dltutor.diagnosis.running.subject import Subject


def needed(evidence: Evidence) -> bool:
    """Return whether main has other threads and the run with forked workers went well."""
    if not evidence.parts.threads or evidence.parts.method != "fork":
        return False
    return evidence.run.well


def ask(subject: Subject) -> waits.Waits:
    """Do what `waits.ask` does, with a plain loop, so that main itself doesn't need the lock."""
    return waits.ask(subject, own_loop=True)


EXPERIMENT: Final = probe("while_held", 9.0, needed, ask, held=True)
