"""Each worker shuffles a stream on its own, then takes its share of an order that only it has.

Symptom: an IterableDataset that shuffles and then splits by worker returns some samples twice and
others never, in each epoch. The number of samples is right.

Mechanism: `order[id::num_workers]` deals an order out, so that each sample goes to one worker. That
works only if all workers have the same order. But each worker shuffles its own copy, and torch
seeds `random`, numpy, and torch differently in each worker, with `seed + id`. So each worker takes
positions that no other worker takes, in an order that no other worker has. With two workers, about
a quarter of the samples arrive twice and a quarter never, and others are affected in the next
epoch. The same happens on several ranks if they shuffle without a common seed. Without workers, all
is well.

Fix: agree on the order, then deal it out. All workers know `get_worker_info().seed - id`, which
torch draws again in each epoch, unless workers are persistent. A seed and the number of the epoch
will do, too. Or take the share first, and shuffle that.

Seen in: datasets#5696 (`shuffle()` without a seed, on several nodes), datasets#7163 (in the docs).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH = 64


class Documents(IterableDataset[torch.Tensor]):
    """A stream of documents in random order. Each of n workers takes every n-th one."""

    def __init__(self) -> None:
        self.documents = torch.arange(LENGTH)

    def __iter__(self) -> Iterator[torch.Tensor]:
        order = self.shuffled()
        worker = get_worker_info()
        if worker is not None:
            order = order[worker.id :: worker.num_workers]
        return (self.documents[number] for number in order)

    def shuffled(self) -> list[int]:
        order = list(range(LENGTH))
        random.shuffle(order)
        return order


class AgreedDocuments(Documents):
    """A stream of documents in a random order that's the same in all workers."""

    def shuffled(self) -> list[int]:
        order = list(range(LENGTH))
        worker = get_worker_info()
        seed = worker.seed - worker.id if worker else random.getrandbits(32)
        random.Random(seed).shuffle(order)
        return order


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the documents that never arrive."""
    seen = {number for batch in loader for number in batch.tolist()}
    return Finding(LENGTH - len(seen), f"of {LENGTH} samples never seen")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers each deal out an order of their own."""
    return Case(load(Documents(), workers, start_method, batch_size=8), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers deal out the same order."""
    return Case(load(AgreedDocuments(), workers, start_method, batch_size=8), train)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Counts(3),  # usually about 16; fewer than 3 in one of 7 * 10**12 runs
    ordered=False,
)
