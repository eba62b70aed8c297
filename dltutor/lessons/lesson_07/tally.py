"""Tally: a count of what happens in forked workers."""

from __future__ import annotations

from mmap import mmap
from typing import Final

from torch.utils.data import get_worker_info

_MOST: Final = 255


class Tally:
    """Counts what workers do. Each has a byte of its own, so that none waits for another.

    Args:
        workers: How many workers there are.
    """

    def __init__(self, workers: int = 2) -> None:
        self._counts = mmap(-1, workers)  # memory that forked processes share, without a file

    def add(self) -> None:
        """Count once, if this is a worker."""
        if worker := get_worker_info():
            self._counts[worker.id] = min(self._counts[worker.id] + 1, _MOST)

    @property
    def total(self) -> int:
        """The count of all workers."""
        return sum(self._counts[:])
