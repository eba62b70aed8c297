"""A worker calls `sys.exit`, and the main process complains about a file that does not exist.

Symptom: `FileNotFoundError: [Errno 2] No such file or directory` without the name of a file, or
`ConnectionResetError: [Errno 104] Connection reset by peer`, `ConnectionRefusedError` or
`EOFError`, from `rebuild_storage_fd`. All files are there.

NOTE [ Which File Was Not Found ]

A worker catches `Exception`. SystemExit, which `sys.exit` and `argparse` raise, is not an
`Exception`: the worker ends normally, and removes its temporary files. One of these is a socket in
`/tmp/pymp-...`: a batch on its way is not data but a handle for shared memory that the main process
fetches through this socket when it unpickles the batch. Batches that the worker finished earlier
are still on their way, so main asks a socket that is gone. This is the file. How far the clean-up
has come decides which of the errors you see; once the worker is dead, torch says
`exited unexpectedly`, and that error is its cause. A forked worker's death may be told before
anything is fetched: then this is all that is said.

How to tell it from a file that is missing: there is no "Caught FileNotFoundError in DataLoader
worker process", `error.filename` is None, and the traceback ends in `multiprocessing`.

Remedy: look at stderr for the worker's last words. Turn the exit into an error where it is called;
if that is not your code, catch SystemExit in the dataset and raise something with the sample's
name. The same errors after another death (see `dead_worker`) mean: look for the death first.

Seen in: pytorch#28950, pytorch#1551, mmagic#508, mmpretrain#472, Pytorch-UNet#517 (the errors;
of other deaths).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from dltutor.failures.kit.contract import Case, Failure, load
from dltutor.failures.kit.sign import Says
from dltutor.failures.material.readings import make_readings
from dltutor.failures.material.tolerant import Tolerant, collate_tolerant

CHANNELS = 16
Sample = dict[str, Any]


def read(path: Path) -> Any:
    """Read one file. Written for the command line, where it ends the program with a message."""
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        sys.exit(f"{path.name}: {error}")


class Readings(Dataset[Sample]):
    """Readings, each with the responses of a bank of filters."""

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
    """A file is no reading."""


class RaisingReadings(Readings):
    """The same readings; an exit becomes an error that names the sample."""

    def __getitem__(self, index: int) -> Sample:
        try:
            return super().__getitem__(index)
        except SystemExit as exit:
            raise UnreadableReading(f"sample {index}: {exit}") from exit


def keep(samples: list[Sample]) -> list[Sample]:
    """A batch is the list of its samples."""
    return samples


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Use a function that exits."""
    return Case(load(Readings(_paths()), workers, start_method, batch_size=2, collate_fn=keep))


def fixed(*, workers: int = 2, start_method: str = "fork", arrives: bool = False) -> Case:
    """Turn the exit into a reason that comes with the batch; or into an error that arrives."""
    dataset = RaisingReadings(_paths())
    if arrives:
        return Case(load(dataset, workers, start_method, batch_size=2, collate_fn=keep))
    tolerant = Tolerant(dataset, UnreadableReading)
    return Case(load(tolerant, workers, start_method, batch_size=2, collate_fn=collate_tolerant))


def _paths() -> Sequence[Path]:
    return make_readings('{"values": [2.25, 4.5')


FAILURE = Failure(
    name="misleading_exit",
    lesson="03",
    promise="ends",
    symptoms=(
        "FileNotFoundError: [Errno 2] No such file or directory, without a file name",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "EOFError",
    ),
    cause=(
        "sys.exit ends a worker normally. Main can't fetch the batches that it had sent anymore, "
        "because the socket that serves them is the file that wasn't found."
    ),
    remedy="Look for the worker's last words on stderr. Turn the exit into an error that names the "
    "sample.",
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
