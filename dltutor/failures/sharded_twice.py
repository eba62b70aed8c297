"""The dataset and its wrapper both take a worker's share, so only 1/n of the data ever arrives.

Symptom: an IterableDataset delivers only half of the data with two workers, and a quarter with
four, without an error. With more workers, an epoch gets shorter.

Mechanism: to divide a stream, something has to ask `get_worker_info()` and skip what belongs to the
other workers. The dataset does that with its files, and the wrapper does it again with the samples
that it gets. Each is right if it's the only one. Together, worker i takes every n-th sample of
every n-th file, so n workers take n * 1/n**2 of the data. No worker takes the rest. Without
workers or with one worker, nothing is divided, so a test on a laptop doesn't show it. The same
happens across ranks if both a dataset and a library such as accelerate divide the stream.

Fix: let exactly one layer divide the stream, if possible the innermost one that knows the files,
because all others read what they skip. Count the samples of an epoch with several workers.

Seen in: accelerate#3547 and accelerate#4276 (2026, a stream that was already split by process).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load, own_folder

FILES, EACH = 8, 8


class Logs(IterableDataset[int]):
    """A stream of events from log files. Each of n workers reads every n-th file."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.jsonl"))

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for file in self.files[first::step]:
            for line in file.read_text().splitlines():
                yield json.loads(line)["event"]


class Divided(IterableDataset[int]):
    """A stream that's divided among the workers. Each of n workers takes every n-th sample."""

    def __init__(self, samples: Iterable[int]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return islice(self.samples, first, None, step)


@cache
def shared_logs() -> Path:
    """Write 8 logs of 8 events each, once per process, and return their folder."""
    folder = own_folder()
    for number in range(FILES):
        events = range(number * EACH, (number + 1) * EACH)
        lines = "".join(json.dumps({"event": event}) + "\n" for event in events)
        (folder / f"{number}.jsonl").write_text(lines)
    return folder


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the events that never arrive."""
    seen = {event for batch in loader for event in batch.tolist()}
    return Finding(FILES * EACH - len(seen), f"of {FILES * EACH} samples never seen")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that divides the samples of a stream that has divided its files."""
    return Case(load(Divided(Logs(shared_logs())), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that divides only the files."""
    return Case(load(Logs(shared_logs()), workers, start_method), train)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(FILES * EACH // 2), ordered=False
)
