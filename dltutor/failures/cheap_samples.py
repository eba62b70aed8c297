"""The samples are in memory, and two workers are slower than none.

Symptom: `num_workers=2` makes the epoch slower, with a `TensorDataset` or any dataset whose samples
cost next to nothing. Each epoch begins with a pause.

Mechanism: a worker pays off only if a sample takes time to make. Here a sample is one row of a
tensor, so most of the work is starting the workers, sending them indices, and sending batches back.
Without workers, nothing has to be sent. And a dataset that takes a list of indices makes a whole
batch with one indexing operation, instead of collating its rows one by one.

Fix: set `num_workers=0`, and let the dataset make the batch. Use a `BatchSampler` as the
`sampler` with `batch_size=None`, so the dataset gets a list of indices, or give it a `__getitems__`
method. Measure before you add workers: compare the time for one sample, times the batch size, with
a few milliseconds.

Seen in: pytorch#154318, pytorch#181520 (a proposal for a warning, to which a reviewer objected that
it doesn't hold for every dataset in memory).
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load

LENGTH = 100_000
BATCH = 64


def measurements() -> TensorDataset:
    """Make a dataset of 100,000 rows, each with 16 numbers and a class."""
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(LENGTH, 16, generator=random)
    return TensorDataset(rows, torch.randint(10, (LENGTH,), generator=random))


def time_an_epoch(loader: DataLoader[Any]) -> Finding:
    """Run two epochs, and return how many milliseconds the faster one took."""
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        for _ in loader:
            pass
        seconds.append(time.perf_counter() - began)
    return Finding(1000 * min(seconds), "ms for the faster of two epochs")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that indexes the dataset once for each row, and then collates the rows."""
    loader = load(measurements(), workers, start_method, batch_size=BATCH)
    return Case(loader, consume=time_an_epoch)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that indexes the dataset once for each batch, in main. Ignore the arguments."""
    dataset = measurements()
    batches = BatchSampler(SequentialSampler(dataset), BATCH, drop_last=False)
    return Case(DataLoader(dataset, sampler=batches, batch_size=None), consume=time_an_epoch)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(2))
