"""Define the catalog of failure modes, each in its own module with a broken and a fixed case."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dltutor.failures.tools.contract import START_METHODS, Case, Failure
from dltutor.failures.tools.facts import PROMISES, Facts, Promise, all_facts
from dltutor.failures.tools.sign import Costs, Counts, Finding, Says, Sign

#: The static facts about each failure mode, read without importing torch, in lesson order.
FACTS: Final = tuple(all_facts().values())
#: The names of the failure modes, which are the names of their modules, in lesson order.
NAMES: Final = tuple(all_facts())

if TYPE_CHECKING:
    from dltutor.failures.data.images import make_images as make_images

    #: Every failure mode, ready to run, in lesson order.
    CATALOG: tuple[Failure, ...]

__all__ = [
    "CATALOG",
    "FACTS",
    "PROMISES",
    "START_METHODS",
    "Case",
    "Costs",
    "Counts",
    "Facts",
    "Failure",
    "Finding",
    "Promise",
    "Says",
    "Sign",
    "make_images",
]


# Load each name on first use, because CATALOG imports torch, and make_images imports Pillow.
def __getattr__(name: str) -> Any:
    value: Any
    if name == "CATALOG":
        value = tuple(import_module(f"dltutor.failures.{each}").FAILURE for each in NAMES)
    elif name == "make_images":
        value = import_module("dltutor.failures.data.images").make_images
    else:
        raise AttributeError(f"module 'dltutor.failures' has no attribute {name!r}")
    globals()[name] = value
    return value
