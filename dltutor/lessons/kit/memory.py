"""Megabytes that an answer takes beyond what its place takes: how memory is held against it.

What a process takes without any answer differs between machines, Pythons and builds of torch: the
pages of libraries that it touches for the first time, what a fork copies of them, what the loader
itself needs. So a grader runs an empty dataset first, in the same process and in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from torch.utils.data import Dataset

from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import could_not_check

What = TypeVar("What")


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
        could_not_check(f"{place}, the run of an empty dataset did not finish: {empty.end}.")
