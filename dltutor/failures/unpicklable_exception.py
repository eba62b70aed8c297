"""An exception whose class can't be pickled never arrives, and the loop waits forever.

Symptom: the loop hangs. A worker wrote `AttributeError: Can't pickle local object` (a
`PicklingError` from Python 3.14 on) or `PicklingError: Can't pickle <class ...>: attribute lookup
... failed` to stderr, below `multiprocessing/queues.py, in _feed`.

Mechanism: the worker sends the class of the exception to the main process by name. A class made
inside a function, or by some C and Rust extensions, can't be found by its name. A thread of the
queue pickles the message after the worker has handed it over, so the thread prints its own error
and drops the message. The worker waits for more work, and the main process waits for the batch.
With `num_workers=0`, the exception is raised as it should be.

Fix: define exception classes at module level. For a class that you can't change, catch the error
in the worker and raise your own, or return the reason with the batch. Give the loader a `timeout=`:
it turns an endless wait into `RuntimeError: DataLoader timed out`.

Seen in: safetensors#492, pytorch#142884.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.utils.data import Dataset

from dltutor.failures.data.readings import make_readings
from dltutor.failures.data.tolerant import Tolerant, collate_tolerant
from dltutor.failures.tools import Case, Failure, Says, facts_of, load

Sample = tuple[torch.Tensor, int]


def parse(text: str) -> Sample:
    """Parse a reading from JSON, or raise an `Unreadable` error."""

    class Unreadable(ValueError):
        pass

    try:
        reading = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"not a reading: {text[:20]!r}") from error
    return torch.tensor(reading["values"]), reading["label"]


class Readings(Dataset[Sample]):
    """A dataset of readings and their labels."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        return parse(self.paths[index].read_text())


class UnreadableReading(ValueError):
    """The error for a file that isn't a reading. Every process finds this class by its name."""


class NamedReadings(Readings):
    """A dataset of readings whose errors can be pickled and name the file."""

    def __getitem__(self, index: int) -> Sample:
        try:
            return super().__getitem__(index)
        except ValueError as error:
            raise UnreadableReading(f"{self.paths[index].name}: {error}") from error


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that raises an exception whose class is defined inside a function."""
    return Case(load(Readings(_paths()), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case with the exception class at module level, and with its message in the batch."""
    dataset = Tolerant(NamedReadings(_paths()), UnreadableReading)
    return Case(load(dataset, workers, start_method, collate_fn=collate_tolerant))


def _paths() -> Sequence[Path]:
    return make_readings("<html>404 Not Found</html>\n")


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("hung", ("Can't pickle local object", "Can't get local object")),
    deadline=3,
)
