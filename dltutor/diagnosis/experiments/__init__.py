"""The doctor's experiments: one module per question, in the order they're asked.

The first line of a module's docstring is the question. Its EXPERIMENT says how to answer it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from dltutor.diagnosis.experiment import Experiment

NAMES: Final[tuple[str, ...]] = (
    "parts",
    "samples",
    "handles",
    "as_it_is",
    "waits",
    "alone",
    "fetched",
    "reordered",
    "reseeded",
    "limits",
    "culprit",
    "in_workers",
    "leftovers",
    "not_kept",
    "one_iterator",
    "any_order",
    "sending",
    "workerless",
    "threads",
    "views",
    "segments",
    "ahead",
    "memory",
    "ending",
    "twice",
    "copies",
    "repeats",
    "shares",
    "repeats_of_stream",
    "epochs",
    "state",
    "order",
    "while_held",
    "travel",
    "imported",
    "two_ranks",
)


@cache
def experiments() -> tuple[Experiment, ...]:
    """Return all of them, in order."""
    return tuple(import_module(f"{__name__}.{name}").EXPERIMENT for name in NAMES)
