"""Provide what the failure modes share: facts, cases, signs, a loader, handles, and folders.

Import `gauge`, which reads memory, from its own module, because it imports torch.
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
