"""An exception with two arguments arrives as a RuntimeError, and `except MyError` doesn't match.

Symptom: `RuntimeError: Caught MyError in DataLoader worker process 0.`, although the loop is inside
`try: ... except MyError:`. With `num_workers=0`, the same `except` catches the exception.

NOTE [ How Main Rebuilds An Exception ]

The worker sends the type of the exception, and its traceback as a string. The main process calls
the type with that string as its only argument and raises the result. A class whose `__init__` needs
two arguments can't be called that way, so torch raises a RuntimeError instead. The message is
complete, but the type is gone, so no `except` for that type matches. This happens to your own
classes and to `json.JSONDecodeError`, `UnicodeDecodeError`, `subprocess.CalledProcessError`, and
`urllib.error.HTTPError`.

If a class has an attribute `message` (on the class, not on the object), main calls the class with
`message=` and the string. If the class doesn't take that argument, you see `TypeError:
MyError.__init__() got an unexpected keyword argument 'message'`, and nothing about the original
error.

Fix: let exceptions that leave a dataset take one argument, the message, and say everything in
it, because attributes don't travel. Then `except` matches, but you lose the whole batch. If the
loop should go on, catch the error in the worker, where it still has its type, and return the reason
with the batch. Then you lose only that sample.

Seen in: pytorch#11633, pytorch#25522, pytorch#34130, pytorch#44631. Before pytorch#58131 (2021),
such an exception ended in `TypeError: __init__() missing 1 required positional argument`, without
the original traceback.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import make_readings
from dltutor.failures.data.tolerant import Tolerant, collate_tolerant
from dltutor.failures.tools import Case, Failure, Says, facts_of, load

Sample = tuple[torch.Tensor, int]


class BadReading(Exception):
    """The error for a reading that lacks a field."""

    def __init__(self, path: Path, missing: str) -> None:
        super().__init__(f"{path.name} has no {missing}")
        self.path = path
        self.missing = missing


class Readings(Dataset[Sample]):
    """A dataset of readings and their labels."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        path = self.paths[index]
        reading = json.loads(path.read_text())
        if "label" not in reading:
            raise BadReading(path, "label")
        return torch.tensor(reading["values"]), reading["label"]


def train(loader: DataLoader[Any]) -> str:
    """Run an epoch that ends early if a reading is bad, and return how the epoch ended."""
    try:
        for _ in loader:
            pass
    except BadReading as bad:
        return f"ended early: {bad}"
    return "complete"


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset raises an exception that takes two arguments."""
    return Case(load(Readings(_paths()), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that catches the exception in the worker and sends the reason with the batch."""
    dataset = Tolerant(Readings(_paths()), BadReading)
    return Case(load(dataset, workers, start_method, collate_fn=collate_tolerant), train)


def _paths() -> Sequence[Path]:
    return make_readings('{"values": [2.25, 4.5, 9.0]}')


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("RuntimeError: Caught BadReading in DataLoader worker process",)),
)
