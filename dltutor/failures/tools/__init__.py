"""Provide what the failure modes share: facts, contract, signs, loader, handles, and folders.

Import `gauge`, which reads memory, from its own module, because it imports torch.
"""

from dltutor.failures.tools.contract import START_METHODS, Case, Consume, Failure, load
from dltutor.failures.tools.facts import PROMISES, Facts, Promise, all_facts, facts_of
from dltutor.failures.tools.handles import PerProcess, own_folder
from dltutor.failures.tools.sign import Costs, Counts, Finding, Says, Sign

__all__ = [
    "PROMISES",
    "START_METHODS",
    "Case",
    "Consume",
    "Costs",
    "Counts",
    "Facts",
    "Failure",
    "Finding",
    "PerProcess",
    "Promise",
    "Says",
    "Sign",
    "all_facts",
    "facts_of",
    "load",
    "own_folder",
]
