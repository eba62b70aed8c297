"""What the doctor has found out about a loader.

Each experiment of `dltutor.diagnosis.experiments` answers with one of these records, and Evidence
holds them all; those that were not made are None. A rule of `dltutor.diagnosis.rules` reads the
Evidence and returns a Fit, or None. The records are plain numbers and texts: they come out of
another process as JSON.
"""

from dltutor.diagnosis.evidence.evidence import Evidence, read
from dltutor.diagnosis.evidence.fit import Certainty, Fit, Harm
from dltutor.diagnosis.evidence.loader import Parts, Run
from dltutor.diagnosis.evidence.memory import Ahead, Limits, Memory, Segments, Views
from dltutor.diagnosis.evidence.processes import (
    Epochs,
    Handles,
    Imported,
    Leftover,
    State,
    Travel,
    Waits,
)
from dltutor.diagnosis.evidence.samples import (
    Copies,
    Culprit,
    Ending,
    Fetched,
    InWorkers,
    Reordered,
    Samples,
    Twice,
)
from dltutor.diagnosis.evidence.sequences import Order, Repeats, Shares, TwoRanks
from dltutor.diagnosis.evidence.speed import Paces, Threads

__all__ = [
    "Ahead",
    "Certainty",
    "Copies",
    "Culprit",
    "Ending",
    "Epochs",
    "Evidence",
    "Fetched",
    "Fit",
    "Handles",
    "Harm",
    "Imported",
    "InWorkers",
    "Leftover",
    "Limits",
    "Memory",
    "Order",
    "Paces",
    "Parts",
    "Reordered",
    "Repeats",
    "Run",
    "Samples",
    "Segments",
    "Shares",
    "State",
    "Threads",
    "Travel",
    "Twice",
    "TwoRanks",
    "Views",
    "Waits",
    "read",
]
