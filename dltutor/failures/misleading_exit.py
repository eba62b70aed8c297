"""A worker calls `sys.exit`, and the main process complains about a file that doesn't exist.

Symptom: `FileNotFoundError: [Errno 2] No such file or directory` without the name of a file, or
`ConnectionResetError: [Errno 104] Connection reset by peer`, `ConnectionRefusedError`, or
`EOFError`, from `rebuild_storage_fd`. None of your files is missing.

NOTE [ Which File Was Not Found ]

A worker catches `Exception`. SystemExit, which `sys.exit` and `argparse` raise, isn't an
`Exception`, so the worker ends normally and removes its temporary files. One of these is a socket
in `/tmp/pymp-...`. A batch on its way isn't data but a handle for shared memory, and the main
process fetches that memory through this socket when it unpickles the batch. Batches that the worker
finished earlier are still on their way, so main connects to a socket that's gone. That's the
missing file. Which of the errors you see depends on how far the worker's cleanup has come. Once the
worker is dead, torch says `exited unexpectedly`, with that error as its cause. If main learns that
a forked worker died before main fetches anything, you see only `exited unexpectedly`.

You can tell this from a file that's really missing, because there's no "Caught FileNotFoundError in
DataLoader worker process", `error.filename` is None, and the traceback ends in `multiprocessing`.

Fix: look at stderr for the worker's last words. Turn the exit into an error where your code
calls `sys.exit`. If the call isn't in your code, catch SystemExit in the dataset, and raise an
error that names the sample. If you see the same errors after a worker died in another way (see
`dead_worker`), first look for what killed the worker.

Seen in: pytorch#28950, pytorch#1551, mmagic#508, mmpretrain#472, Pytorch-UNet#517 (the same errors,
after workers died in other ways).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from dltutor.failures.data.readings import make_readings
from dltutor.failures.data.tolerant import Tolerant, collate_tolerant
from dltutor.failures.tools import Case, Failure, Says, facts_of, load

CHANNELS = 16
Sample = dict[str, Any]


def read(path: Path) -> Any:
    """Read one file. Written for the command line, where it ends the program with a message."""
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        sys.exit(f"{path.name}: {error}")


class Readings(Dataset[Sample]):
    """A dataset of readings, each with the responses of a bank of filters."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        reading = read(self.paths[index])
        values = torch.tensor(reading["values"])
        responses = [values * channel for channel in range(CHANNELS)]
        return {"responses": responses, "label": reading["label"]}


class UnreadableReading(ValueError):
    """The error for a file that isn't a reading."""


class RaisingReadings(Readings):
    """A dataset of readings that turns an exit into an error with the sample's index."""

    def __getitem__(self, index: int) -> Sample:
        try:
            return super().__getitem__(index)
        except SystemExit as exit:
            raise UnreadableReading(f"sample {index}: {exit}") from exit


def keep(samples: list[Sample]) -> list[Sample]:
    """Return the list of a batch's samples as it is."""
    return samples


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset calls a function that exits."""
    return Case(load(Readings(_paths()), workers, start_method, batch_size=2, collate_fn=keep))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that turns an exit into an error, and returns the reason with the batch."""
    dataset = Tolerant(RaisingReadings(_paths()), UnreadableReading)
    return Case(load(dataset, workers, start_method, batch_size=2, collate_fn=collate_tolerant))


def _paths() -> Sequence[Path]:
    return make_readings('{"values": [2.25, 4.5')


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says(
        "worker died",
        (
            "FileNotFoundError: [Errno 2]",
            "ConnectionResetError: ",
            "ConnectionRefusedError: ",
            "EOFError: ",
            "exited unexpectedly",
        ),
    ),
)
