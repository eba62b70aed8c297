"""Provide what the failure modes share: facts, cases, signs, a loader, handles, and folders.

Import `gauge` and `two_ranks` from their own modules, because these two import torch.
"""

from dltutor.failures.tools.contract import Case, Failure, load
from dltutor.failures.tools.facts import facts_of
from dltutor.failures.tools.handles import PerProcess, own_folder
from dltutor.failures.tools.sign import Costs, Counts, Finding, Says

__all__ = [
    "Case",
    "Costs",
    "Counts",
    "Failure",
    "Finding",
    "PerProcess",
    "Says",
    "facts_of",
    "load",
    "own_folder",
]
