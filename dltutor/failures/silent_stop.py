"""A StopIteration from `__getitem__` ends the epoch early, silently.

Symptom: the epoch ends early without an error: fewer samples than `len(dataset)` arrive, with any
number of workers. The loss looks fine, and the model never sees some of the samples.

Mechanism: `next(label for name, label in labels if name == wanted)` raises StopIteration if nothing
matches. The worker treats that like any other exception and sends it to the main process, which
raises it inside the `__next__` of the loader's iterator. There, StopIteration means that the loop
is over. (From a generator, StopIteration arrives as a RuntimeError, because of PEP 479.) For an
IterableDataset, StopIteration means that this worker has no more samples.

Fix: look things up in a dict, which raises KeyError, or write `next(..., None)` and handle the
None. Find samples without a label before the epoch. Count what the loop gets, and compare it with
the length of the dataset.

Seen in: measured here. We found no public report. Related: pytorch#82732, where an IndexError ends
`for sample in dataset`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import SPOILED, make_readings
from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

Sample = tuple[torch.Tensor, str]


class LabeledReadings(Dataset[Sample]):
    """A dataset of readings, with their labels from `labels.csv`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        with (paths[0].parent / "labels.csv").open(newline="") as file:
            self.labels = [(name, label) for name, label in csv.reader(file)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        path = self.paths[index]
        values = torch.tensor(json.loads(path.read_text())["values"])
        label = next(label for name, label in self.labels if name == path.name)
        return values, label


class VerifiedReadings(LabeledReadings):
    """A dataset of the readings that have a label.

    Attributes:
        unlabeled: The paths of the readings without a label.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self.label_of = dict(self.labels)
        self.unlabeled = [path for path in self.paths if path.name not in self.label_of]
        self.paths = [path for path in self.paths if path.name in self.label_of]

    def __getitem__(self, index: int) -> Sample:
        path = self.paths[index]
        values = torch.tensor(json.loads(path.read_text())["values"])
        return values, self.label_of[path.name]


def count_missed(loader: DataLoader[Any]) -> Finding:
    """Run an epoch, and count the samples of the dataset that never arrived."""
    expected = len(loader.dataset)  # type: ignore[arg-type]  # our datasets have a length
    seen = sum(len(labels) for _, labels in loader)
    return Finding(expected - seen, f"of {expected} samples never delivered")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset looks up a missing label with `next()`."""
    return Case(load(LabeledReadings(_paths()), workers, start_method, batch_size=2), count_missed)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that sets aside the readings without a label before the epoch."""
    return Case(load(VerifiedReadings(_paths()), workers, start_method, batch_size=2), count_missed)


@cache
def _paths() -> Sequence[Path]:
    paths = make_readings()
    labeled = [path for number, path in enumerate(paths) if number != SPOILED]
    with (paths[0].parent / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows((path.name, f"kind {i % 3}") for i, path in enumerate(labeled))
    return paths


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(8))
