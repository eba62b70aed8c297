"""A stream with fewer shards than workers: some workers get no shard and deliver nothing.

Symptom: an IterableDataset isn't faster with more workers, and most workers use no CPU time.
Hugging Face's datasets warns: `Too many dataloader workers: 4 (max is dataset.num_shards=3).
Stopping 1 dataloader workers.`

Mechanism: a sampler deals batches out to all workers, but a stream has no sampler. The dataset
decides which worker reads what, and usually deals out whole files, called shards: of n workers,
each takes every n-th shard. A worker for which there's no shard ends right away. If there's only
one shard, one worker does all the work, no matter how many there are. On several ranks, the shards
are divided by ranks first, so there have to be as many as all workers of all ranks together.

It's easy to end up with fewer shards than you think. A small dataset may be a single file, and
mixing or shuffling streams may leave only as many shards as the smallest part has.

Fix: split the data into at least as many shards as there are workers on all ranks, or a multiple of
that, so that they all have the same amount of work. If you can't, deal out samples: each worker
reads all of them, and decodes every n-th. Or use fewer workers.

Seen in: datasets#8669 (2026: one shard after a shuffle), LlamaFactory#9590 (2 shards, 16 workers).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, SHARDS = 64, 8


class Shards(IterableDataset[torch.Tensor]):
    """A stream of the samples in some shards. Each of n workers reads every n-th shard."""

    def __init__(self, shards: Sequence[torch.Tensor]) -> None:
        self.shards = shards

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for shard in self.shards[first::step]:
            yield from shard


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run an epoch, and count the workers without a shard.

    Batches arrive from the workers in turn, and a worker's first batch begins with the first sample
    of a shard. So if each of n workers has a shard, each of the first n batches begins that way.
    """
    dataset: Any = loader.dataset
    workers = max(loader.num_workers, 1)
    starts = {int(shard[0]) for shard in dataset.shards}
    batches = [batch.tolist() for batch in loader]
    busy = sum(batch[0] in starts for batch in batches[:workers])
    return Finding(workers - busy, f"of {workers} workers idle")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose data is a single shard."""
    return Case(load(Shards([torch.arange(LENGTH)]), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose data has been split into more shards than there are workers."""
    shards = torch.arange(LENGTH).chunk(SHARDS)
    return Case(load(Shards(shards), workers, start_method), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(), ordered=False)
