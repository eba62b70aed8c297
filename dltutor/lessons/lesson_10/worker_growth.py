"""How workers, main and other processes grow while a loader of single numbers runs."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass, field
from typing import Any, Final

import psutil
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.lesson_10.held_memory import held, held_by_all, small_garbage

_READ_EVERY: Final = 3  # batches


@dataclass
class Growth:
    """What is read while epochs run, in MB.

    Args:
        workers: Held by one worker, on average; by main where there is none.
        main: Held by main.
        others: Held by all other processes that main has started.
        pids: The workers of each epoch.
        epochs: What each epoch brought.
    """

    workers: list[float] = field(default_factory=list)
    main: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    pids: list[set[int]] = field(default_factory=list)
    epochs: list[list[float]] = field(default_factory=list)

    def run(self, loader: DataLoader[Any], epochs: int) -> None:
        """Run epochs of a loader whose samples are single numbers, and read meanwhile."""
        earlier = _children()
        with small_garbage():
            for _ in range(epochs):
                self.epochs.append([])
                for number, batch in enumerate(loader):
                    self.epochs[-1].extend(_numbers(batch))
                    if number % _READ_EVERY == 0:
                        self._read(_children() - earlier)
                self.pids.append(_children() - earlier)

    def _read(self, workers: set[int]) -> None:
        family = {child.pid for child in psutil.Process().children(recursive=True)}
        self.main.append(held(os.getpid()))
        self.workers.append(held_by_all(workers) / len(workers) if workers else self.main[-1])
        self.others.append(held_by_all(family - workers))


def grown(readings: list[float]) -> float:
    """From the first reading to the highest."""
    return max(readings) - readings[0]


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


def _numbers(batch: Any) -> list[float]:
    if not isinstance(batch, torch.Tensor) or batch.dim() != 1:
        raise TypeError("a sample must stay what it was: a tensor with one number")
    return [float(number) for number in batch]
