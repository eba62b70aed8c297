"""A short night of training, and what was read of the memory meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import psutil
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import MEGABYTE, Gauge

EPOCHS: Final = 10
STEP: Final = 0.005  # seconds of training
READ_EVERY: Final = 4  # steps


@dataclass(frozen=True)
class Night:
    """What was read during a job, once every few steps.

    Args:
        workers: MB private to a worker, on average.
        main: MB private to main.
        shared: MB of batches in shared memory, on their way or kept.
        files: Descriptors that main has open.
        seconds: How long the job took from its first batch on.
    """

    workers: tuple[float, ...]
    main: tuple[float, ...]
    shared: tuple[float, ...]
    files: tuple[float, ...]
    seconds: float

    def growth(self, of: str) -> float:
        """From the first reading of "workers", "main", "shared" or "files" to the highest."""
        readings: tuple[float, ...] = getattr(self, of)
        return max(readings) - readings[0]

    def fall(self, of: str) -> float:
        """The deepest fall from one reading to a later one."""
        readings: tuple[float, ...] = getattr(self, of)
        return max(max(readings[: i + 1]) - low for i, low in enumerate(readings))

    def late(self, of: str) -> float:
        """From the lowest reading of the second half to the highest."""
        readings: tuple[float, ...] = getattr(self, of)
        half = readings[len(readings) // 2 :]
        return max(half) - min(half)


def train(
    loader: DataLoader[Any],
    *,
    keep: Callable[[Any], object] | None = None,
    epochs: int = EPOCHS,
    step: float = STEP,
    every: int = READ_EVERY,
) -> Night:
    """A short night of training, and what was read meanwhile.

    Args:
        loader: Any loader of tensors.
        keep: What the loop keeps of each batch, to the end.
        epochs: How many.
        step: Seconds that a training step takes.
        every: How many steps there are from one reading to the next.
    """
    gauge, main = Gauge(), psutil.Process()
    kept: list[object] = []
    workers, private, shared, files = [], [], [], []
    steps, start = 0, 0.0
    for _ in range(epochs):
        for batch in loader:
            start = start or time.perf_counter()
            if keep is not None:
                kept.append(keep(batch))
            if steps % every == 0:
                workers.append(gauge.private())
                private.append(main.memory_full_info().uss / MEGABYTE)
                shared.append(gauge.shared())
                files.append(float(main.num_fds()))
            steps += 1
            time.sleep(step)
    seconds = time.perf_counter() - start
    return Night(tuple(workers), tuple(private), tuple(shared), tuple(files), seconds)
