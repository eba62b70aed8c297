"""What of the stream's random numbers comes again, in another worker or in the next epoch?

W0 is asked for two epochs. Then two workers are both told that they are W0: they have the same
share, and if it is random, it must not come out the same.
"""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.experiments.shares import random_of
from dltutor.diagnosis.kit.bench import Bench
from dltutor.failures.kit.evidence import Evidence, Repeats

FIELD: Final = "repeats"
SECONDS: Final = 12.0


def needed(evidence: Evidence | None) -> bool:
    """Where two passes in one process differ by random numbers."""
    return evidence is not None and evidence.shares is not None and evidence.shares.random


def ask(bench: Bench) -> Repeats:
    """Iterate it."""
    return random_of(bench)
