"""Count the batches' descriptors, run loaders under limits, and provide the starters."""

from __future__ import annotations

import faulthandler
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.sentences import as_list
from dltutor.failures.tools import load
from dltutor.lessons.lesson_11.traces import Blocks
from dltutor.observation import CannotConfine, Observation, confine
from dltutor.observation.texts import fate, said, tidy
from dltutor.tables import Note, Table, size

_DESCRIPTORS: Final = Path("/proc/self/fd")
_PATIENCE: Final = 20.0  # the most seconds to wait for a process to end
_ERROR: Final = re.compile(r"[A-Za-z_.]+(Error|Exception)\b")


@dataclass(frozen=True)
class Held:
    """A count of the shared memory that a process still has open from workers' batches.

    Args:
        descriptors: How many of the process's open descriptors belong to torch's shared memory.
        bytes: How many bytes of `/dev/shm` the batches take up.
    """

    descriptors: int
    bytes: int

    def __str__(self) -> str:
        s = "" if self.descriptors == 1 else "s"
        return f"{self.descriptors} descriptor{s}, {size(self.bytes)} in /dev/shm"

    __repr__ = __str__


def held() -> Held:
    """Count this process's descriptors and bytes from batches. Without `/proc`, both are 0."""
    found = []
    for path in _DESCRIPTORS.glob("*"):
        with suppress(OSError):  # the descriptor that listed the others is closed by now
            if "/dev/shm/torch_" in os.readlink(path):
                found.append(path.stat().st_blocks * 512)
    return Held(len(found), sum(found))


def confined(target: Callable[..., Any], **how: Any) -> Observation | Note:
    """Return what `confine` observes, or a note if this machine doesn't permit the limit.

    The arguments are those of `confine`.
    """
    try:
        return confine(target, **how)
    except CannotConfine as reason:
        return Note("Not run here:", f"{reason} The solved notebook shows what happens.", "warn")


def last_words(seen: Observation | Note) -> Note:
    """Show how a run ended, with main's error or the last error that a worker wrote.

    A note from `confined` comes back as it is.
    """
    if isinstance(seen, Note):
        return seen
    lines = seen.stderr.splitlines()
    # Two workers may write at once, so the last line may not be the end of a traceback.
    errors = [line for line in lines if _ERROR.match(line)] or lines
    text = tidy(said(*seen.chain[0]) if seen.chain else "".join(errors[-1:])).strip()
    if seen.end == "hung" and text:
        text = f"A worker wrote to stderr: {text}"
    return Note(f"{seen.end.capitalize()}.", text, "good" if seen.end == "finished" else "bad")


def what_it_costs(batches: Mapping[str, tuple[Any, Any]]) -> Table:
    """Show how many descriptors and bytes main has open for a forked worker's batch of eight.

    Args:
        batches: Name -> a sample, and a `collate_fn` or None.
    """
    rows = []
    for name, (sample, collate_fn) in batches.items():
        before = held()
        dataset: Any = [deepcopy(sample) for _ in range(8)]
        loader = load(dataset, 1, "fork", batch_size=8, collate_fn=collate_fn)
        [batch] = loader
        after = held()
        del batch
        more = after.bytes - before.bytes
        rows.append((name, str(after.descriptors - before.descriptors), size(more)))
    return Table("What a batch of eight costs main", tuple(rows), ("", "descriptors", "/dev/shm"))


def collect(dataset: Any, num_workers: int) -> list[Any]:
    """Return every sentence with its class, in order, as the starter for "11.fix" does."""
    method = "fork" if num_workers else None
    loader: DataLoader[Any] = DataLoader(
        dataset, 100, num_workers=num_workers, collate_fn=as_list, multiprocessing_context=method
    )
    found: list[Any] = []
    for sentences, labels in loader:
        found.extend(zip(sentences, labels, strict=True))
    return found


class Rows(Dataset[torch.Tensor]):
    """The notebook's starter for "11.transfer": an array's rows, in a block of shared memory."""

    def __init__(self, array: Any) -> None:
        self.block = SharedMemory(create=True, size=array.nbytes)
        self.rows = np.ndarray(array.shape, array.dtype, buffer=self.block.buf)
        self.rows[:] = array

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index])

    def write(self, index: int, row: Any) -> None:
        self.rows[index] = row

    def close(self) -> None:
        self.block.close()


def read_after_close(table: Callable[[Any], Any]) -> Note:
    """In a new process, take a row of a small table, close the table, and then read the row.

    Args:
        table: A class such as `Rows`, which makes a table in shared memory from an array.

    Returns:
        A note that says how the process ended, and how many files the closed table left.
    """
    hear, say = os.pipe()
    process = get_context("fork").Process(target=_read_after_close, args=(table, say))
    process.start()
    os.close(say)
    process.join(_PATIENCE)
    process.kill()
    process.join()
    with open(hear) as pipe:
        left = int(pipe.read() or 0)
    how = "could" if process.exitcode == 0 else f"was {fate(process.exitcode)}"
    text = f"the process that read it {how}. Files left: {left}."
    return Note("A row after close():", text)


def _read_after_close(table: Callable[[Any], Any], say: int) -> None:
    faulthandler.disable()  # because we expect a crash here
    # Hide what the crash and the resource tracker print.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None  # this process gets its own tracker, which removes the block
    blocks = Blocks()
    rows = table(np.arange(12, dtype=np.float32).reshape(3, 4))
    blocks.look()
    row = rows[1]
    rows.close()
    left = blocks.left()
    os.write(say, b"%d" % len(left))
    for path in left:
        path.unlink()
    os.close(say)
    row.sum().item()
