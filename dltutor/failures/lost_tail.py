"""drop_last drops each worker's last, short batch, and with enough workers the whole epoch.

Symptom: an IterableDataset with drop_last=True loses samples with workers that it does not lose
without. With a small dataset, the loop may not run a single step.

Mechanism: the workers batch an IterableDataset. Each worker fills batches from its own part of the
stream, and drops the samples that don't fill a batch. So you lose up to
`workers * (batch_size - 1)` samples instead of `batch_size - 1`. Of 48 samples in batches of 16,
you lose none without workers, 16 with two, and all 48 with four, because no worker gets 16. With a
map-style dataset, main decides which samples make a batch, so you lose at most one short batch.

Fix: deal out whole batches instead of samples: let the dataset build them, and give the loader
`batch_size=None`. Then the order doesn't depend on the number of workers either. This costs a pass
over all samples in every worker: each worker does the cheap part (reading a line) for every sample,
and the expensive part (decoding) only for its own. Or turn off `drop_last`, if the model accepts
short batches, of which there may be one for each worker.

Seen in: pytorch#33413 (open since 2020), detectron2#5035.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, BATCH = 48, 16


class Stream(IterableDataset[torch.Tensor]):
    """A stream of samples. Each of n workers takes every n-th sample."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, self.length, step):
            yield torch.tensor(number)


class BatchedStream(Stream):
    """A stream of whole batches. Each of n workers takes every n-th batch."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return islice(self._batches(), first, None, step)

    def _batches(self) -> Iterator[torch.Tensor]:
        numbers = iter(range(self.length))
        while len(batch := list(islice(numbers, BATCH))) == BATCH:
            yield torch.tensor(batch)


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run an epoch of 48 samples, which are three whole batches, and count the lost samples."""
    seen = {number for batch in loader for number in batch.tolist()}
    return Finding(LENGTH - len(seen), f"of {LENGTH} samples lost")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that deals out samples, so each worker drops its last, short batch."""
    return Case(load(Stream(), workers, start_method, batch_size=BATCH, drop_last=True), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that deals out whole batches."""
    return Case(load(BatchedStream(), workers, start_method, batch_size=None), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(BATCH))
