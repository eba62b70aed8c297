"""The doctor's experiments: one module for each question, in the order in which they are asked.

A module has

- a docstring whose first line is the question;
- FIELD, the field of Evidence that its answer fills;
- SECONDS, the most that it may take with workers that are forked (others get STARTING more);
- `needed(evidence)`: whether the answer would tell anything, after what is known;
- `ask(bench)`: called in the sandbox, in a fork of the process, with a loader that it may change;
  returns the record, or raises `bench.TooSlow`, which says why there is no time for it;
- perhaps `cut_short(ended, mark)`: the record, if the process died or was stopped.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

NAMES: Final[tuple[str, ...]] = (
    "parts",
    "samples",
    "handles",
    "as_it_is",
    "waits",
    "alone",
    "reseeded",
    "fetched",
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


def experiments() -> list[ModuleType]:
    """All of them, in order."""
    return [import_module(f"{__name__}.{name}") for name in NAMES]
