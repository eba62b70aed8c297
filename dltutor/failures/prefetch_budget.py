"""Prefetched batches fill shared memory before your loop has used the first one.

Symptom: `/dev/shm` fills up, or memory runs out, as soon as the loop starts, and sooner with every
worker. A larger `prefetch_factor` or `batch_size` takes up more memory. No process has grown,
because no process maps the batches that wait, and `htop` has no column for such memory.

NOTE [ The Budget ]

Main asks each worker for `prefetch_factor` batches at the start, and for one more whenever the loop
takes one. A finished batch stays in shared memory until the loop takes it. While the model works on
one batch, the workers make the others, so that soon

    (num_workers * prefetch_factor + 1) * bytes of a batch

are in shared memory, including the batch that your loop holds. That's a limit, not a leak, because
a slow loop doesn't raise it. What counts is the type that travels: an image with one byte per value
takes up four times as much once you've turned it into float32.

Fix: work the product out before you choose its factors. Keep `prefetch_factor=2`, the default,
unless you see the loop wait. A larger factor only evens out batches that take unequal times. Send
bytes and turn them into floats in the loop, where the model is.

Seen in: pytorch#62066 (5 GB batches, as many workers as cores), pytorch#44528.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import Gauge, no_proc
from dltutor.tables import MB

_LONGEST: Final = 10.0  # the most seconds to wait for the workers to prefetch


class Recordings(Dataset[torch.Tensor]):
    """A dataset of recordings as numbers between -1 and 1."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.paths[index])) / 2**15


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch with a slow first step, as if torch were compiling the model.

    Returns:
        The most MB that batches held in shared memory.
    """
    gauge = Gauge()
    held = []
    for step, batch in enumerate(loader):
        # In the first step, wait until the workers have prefetched all that they may. This takes
        # longer on a busy machine.
        until = time.monotonic() + (_LONGEST if step == 0 and loader.num_workers else 0)
        while gauge.shared() < budget(loader, batch.nbytes) / MB and time.monotonic() < until:
            time.sleep(0.02)
        held.append(gauge.shared())
    return Finding(max(held), "MB of batches in shared memory")


def budget(loader: DataLoader[Any], batch: int) -> int:
    """Return how many bytes of batches are in shared memory once the workers can't prefetch more.

    Args:
        loader: The loader, whose loop holds one batch.
        batch: The size of a batch, in bytes.
    """
    return (loader.num_workers * (loader.prefetch_factor or 0) + 1) * batch


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers prefetch 16 batches each."""
    return Case(load(_recordings(), workers, start_method, prefetch_factor=16), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers prefetch two batches each."""
    return Case(load(_recordings(), workers, start_method, prefetch_factor=2), train)


def _recordings() -> Recordings:
    return Recordings(shared_recordings(160, 60_000))


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(4), absent=no_proc)
