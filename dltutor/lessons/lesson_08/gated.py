"""Data for "08.transfer", of which the check decides when a worker makes a batch."""

from __future__ import annotations

import multiprocessing
from typing import Any, Final

from torch.utils.data import Dataset, get_worker_info

BATCHES: Final = 24


class Gated(Dataset[Any]):
    """A worker makes a batch for each time that its gate is opened; with 4 workers it is a pair."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("fork")
        self.gates = [context.Semaphore(0) for _ in range(workers)]

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> Any:
        if info := get_worker_info():
            self.gates[info.id].acquire()
        return (index, 0) if len(self.gates) == 4 else index

    def let(self, *batches: int) -> None:
        """Let W0, W1 and so on make so many more."""
        for gate, count in zip(self.gates, batches, strict=False):
            for _ in range(count):
                gate.release()

    def close(self) -> None:
        """Let no worker make one more."""
        for gate in self.gates:
            while gate.acquire(block=False):
                pass
