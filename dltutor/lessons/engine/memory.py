"""Megabytes that an answer takes beyond what its place takes: how memory is held against it.

What a process takes without any answer differs between machines, Pythons and builds of torch: the
pages of libraries that it touches for the first time, what a fork copies of them, what the loader
itself needs. So a grader runs an empty dataset first, in the same process and in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import could_not_check
from dltutor.observation import confine
from dltutor.tables import MB

What = TypeVar("What")

_UNKNOWN: Final = 200  # MB that an interpreter with torch takes, where PSS cannot be read


class Empty(Dataset[Any]):
    """Samples that are there already: to read them takes nothing, and keeps nothing.

    Args:
        samples: Anything with a length and samples at its indices.
    """

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def beyond(empty: Mapping[What, float], taken: Mapping[What, float]) -> dict[What, float]:
    """How much more an answer took than an empty run did, of each thing; at least nothing.

    Args:
        empty: What the empty run took, in any unit; what is missing is nothing.
        taken: What the answer took, in the same one.
    """
    return {what: max(0, took - empty.get(what, 0)) for what, took in taken.items()}


def finished(empty: Ending, place: str) -> None:
    """Go on only where an empty run finished.

    Args:
        empty: How it ended.
        place: With how many workers.

    Raises:
        Rejected: It did not; that says something of the machine, and nothing of the answer.
    """
    if empty.end != "finished":
        could_not_check("empty-run-failed", where=place, end=empty.end)


def room(more: int, *, workers: int) -> int:
    """A limit for `confine` that leaves a loader so much, whatever Python and torch take here.

    Args:
        more: MB beyond what main and the workers take with an empty dataset.
        workers: How many, forked.

    Returns:
        Bytes.
    """
    return (_taken_by_nothing(workers) + more) * MB


@cache
def _taken_by_nothing(workers: int) -> int:
    curve = confine(loader_of_nothing, workers=workers).timeline.total_pss() / MB
    return round(max(curve[np.isfinite(curve)], default=_UNKNOWN))


def loader_of_nothing(workers: int) -> DataLoader[Any]:
    """What an empty run reads, in an interpreter of its own."""
    samples: Any = Empty(range(64 * workers))
    return DataLoader(samples, 8, num_workers=workers, multiprocessing_context="fork")
