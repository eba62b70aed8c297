"""Every worker reads the whole stream, and every sample arrives once for each worker.

Symptom: an IterableDataset returns duplicate data with num_workers > 1, so an epoch is twice as
long with two workers. Sometimes torch warns: `UserWarning: Length of IterableDataset ... was
reported to be`.

Mechanism: with a map-style dataset, the main process deals the indices out. An IterableDataset has
no indices, so each worker gets a copy of the dataset and iterates all of it. torch's warning
doesn't help much. The warning appears only if the dataset has a `__len__` and something (a progress
bar) called `len(loader)`. torch then compares the number of batches that arrived with the number of
samples that `__len__` promised. So with more samples in a batch than workers, torch stays silent,
unless the stream is very short.

Fix: call `get_worker_info()` in `__iter__` and take every n-th sample, or every n-th file if
there are many (then each worker opens and reads only its own). On several machines, deal out by
rank as well. The order of the samples changes with the number of workers.

Seen in: pytorch#30599, finetrainers#394, MatchZoo-py#169 (30 workers: 30 times), zarrdataset#11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load, own_folder

LENGTH = 64


class Events(IterableDataset[int]):
    """A stream of events from a log file that has one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[int]:
        with self.path.open() as lines:
            for line in lines:
                yield json.loads(line)["event"]


class DealtEvents(Events):
    """A stream of events from a log file. Each of n workers takes every n-th event."""

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with self.path.open() as lines:
            for line in islice(lines, first, None, step):
                yield json.loads(line)["event"]


@cache
def shared_log() -> Path:
    """Write a log of 64 events, once per process, and return its path."""
    log = own_folder() / "events.jsonl"
    log.write_text("".join(json.dumps({"event": number}) + "\n" for number in range(LENGTH)))
    return log


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count how often an event arrives that has arrived before."""
    seen = [event for batch in loader for event in batch.tolist()]
    return Finding(len(seen) - len(set(seen)), f"of {len(seen)} samples seen before")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers each read the whole log."""
    return Case(load(Events(shared_log()), workers, start_method, batch_size=8), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers each read their own lines of the log."""
    return Case(load(DealtEvents(shared_log()), workers, start_method, batch_size=8), train)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH), ordered=False
)
