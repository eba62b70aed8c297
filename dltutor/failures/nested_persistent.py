"""With persistent workers, a loop inside a loop over the same loader silently ends the outer loop.

Symptom: the outer loop ends after its first batch, without an error or a message. With
`persistent_workers=False`, or with no workers, the same code runs all its rounds.

Mechanism: a loader with `persistent_workers=True` has one iterator, and `iter(loader)` resets that
iterator and returns it again. So both loops hold the same object. The inner loop resets the
iterator, uses it up, and ends. When the outer loop asks for its next batch, there isn't one. The
inner loop is easy to overlook. It may validate on the training loader in the middle of an epoch, or
compute statistics for a normalization. A single `next(iter(loader))`, such as for an image to log,
also resets the iterator, but then the outer loop starts over.

Fix: use a separate loader for each loop. The loaders may share the dataset, and each loader has its
own workers.

Seen in: torchrec#2327 (a pipeline that told its epochs apart by their iterators). We found no
public report of the nested loop itself, and measured it here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

BATCHES = 4


def compare(rows: DataLoader[Any], columns: DataLoader[Any]) -> Finding:
    """Multiply each batch of `rows` by each batch of `columns`, and count the missing products."""
    blocks = []
    for (row,) in rows:
        for (column,) in columns:
            blocks.append(row @ column.T)
    return Finding(BATCHES**2 - len(blocks), f"of {BATCHES**2} blocks missing")


def with_itself(loader: DataLoader[Any]) -> Finding:
    """Run both loops of `compare` over one loader."""
    return compare(loader, loader)


def with_another(loader: DataLoader[Any]) -> Finding:
    """Run the two loops of `compare` over two loaders."""
    return compare(loader, _loader(loader.num_workers, loader.multiprocessing_context))


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that loops over a loader inside a loop over the same loader."""
    return Case(_loader(workers, start_method), with_itself)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that loops over a second loader inside a loop over the first."""
    return Case(_loader(workers, start_method), with_another)


def _loader(workers: int, start_method: Any) -> DataLoader[Any]:
    blocks = TensorDataset(torch.eye(8 * BATCHES))
    return load(blocks, workers, start_method, batch_size=8, persistent_workers=True)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(BATCHES * (BATCHES - 1))
)
