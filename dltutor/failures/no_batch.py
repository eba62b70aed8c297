"""`drop_last=True` drops the only batch, so the loop doesn't run a single step.

Symptom: the loss stays 0 or nan, and the weights never change. There's no error, unless your code
divides by the number of batches: `ZeroDivisionError: division by zero`. transformers warns:
`There seems to be not a single sample in your epoch_iterator`. Lightning does, too: `Total length
of DataLoader across ranks is zero`.

Mechanism: with `drop_last=True`, the loader leaves out a batch that isn't full. That's meant for
the last batch of many, because a batch of one or two samples upsets batch normalization. But if
there are fewer samples than a batch takes, the last batch is also the first one, and nothing is
left. For Python, a `for` loop over nothing is a loop like any other, so the epoch ends at once and
without an error. After it, an average over no batches is whatever the code starts with.

A setting that's right for the full dataset does this to a small one: a debugging run on 48 samples,
one site's part of the data, or a rank's share. With an IterableDataset, each worker drops its own
last batch, so adding workers can lose all batches, too (see `lost_tail`).

Fix: drop the last batch only if there's another one. Before the first epoch, check that
`len(loader)` isn't 0, or after each epoch, that batches arrived. For evaluation, use
`drop_last=False`.

Seen in: tabnet#537 (loss 0.0 in every epoch), vamb#424 (2025), YuLan-IR#5.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, BATCH = 48, 64
RATE: Final = 0.01  # the learning rate

Sample = tuple[torch.Tensor, torch.Tensor]  # the reading, and what it should have been


class Readings(Dataset[Sample]):
    """A dataset of one site's readings, to calibrate its sensors with."""

    def __init__(self) -> None:
        self.readings = torch.linspace(0, 1, LENGTH)
        self.wanted = 2 * self.readings

    def __len__(self) -> int:
        return len(self.readings)

    def __getitem__(self, index: int) -> Sample:
        return self.readings[index], self.wanted[index]


def train(loader: DataLoader[Sample]) -> Finding:
    """Fit a slope for an epoch, and count the samples that the loop didn't get."""
    slope, seen = torch.tensor(1.0), 0
    for readings, wanted in loader:
        slope -= RATE * ((slope * readings - wanted) * readings).mean()
        seen += len(readings)
    return Finding(LENGTH - seen, f"of {LENGTH} samples never seen; the slope is {slope:.3f}")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that drops the only batch."""
    dataset = Readings()
    return Case(load(dataset, workers, start_method, batch_size=BATCH, drop_last=True), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that drops the last batch only if there's another one."""
    dataset = Readings()
    several = len(dataset) > BATCH
    return Case(load(dataset, workers, start_method, batch_size=BATCH, drop_last=several), train)


FAILURE: Final = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH))
