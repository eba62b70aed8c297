"""Samples that were used long ago stay in memory, because they're part of reference cycles.

Symptom: each worker's memory rises by hundreds of megabytes, falls all at once, rises again, and so
on. If you're unlucky, memory runs out before it falls. A `gc.collect()` in `__getitem__` stops the
growth.

Mechanism: a recording knows its channels, and each channel knows its recording. When the sample is
done, no reference count drops to zero, so the recording and its bytes stay until the cyclic garbage
collector runs. The collector counts objects, not bytes: it runs after hundreds of new containers
(by default 700, or 2000 from Python 3.13 on), even if each one holds ten megabytes. Exceptions that
you caught and kept, trees whose nodes know their parent, and callbacks that are bound methods of
their owner also make cycles.

Fix: break the cycle. Give the part what it needs from the whole, or a `weakref.ref` to the whole.
This is the one case where `gc.collect()` helps, but each call walks over all objects.

Seen in: measured here. We found no public report.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import growth


class Channel:
    """One of a recording's two channels: every second number."""

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording = recording
        self.number = number

    def loudness(self) -> float:
        numbers = np.frombuffer(self.recording.content, np.int16)[self.number :: 2]
        return float(np.abs(numbers.astype(np.float32)).mean())


class Recording:
    """A file, and its channels."""

    def __init__(self, path: str) -> None:
        self.content = Path(path).read_bytes()
        self.channels = [Channel(self, 0), Channel(self, 1)]


class ChannelOfBytes:
    """One of a recording's two channels. It refers only to the recording's bytes."""

    def __init__(self, content: bytes, number: int) -> None:
        self.content = content
        self.number = number

    def loudness(self) -> float:
        numbers = np.frombuffer(self.content, np.int16)[self.number :: 2]
        return float(np.abs(numbers.astype(np.float32)).mean())


class RecordingWithoutCycle:
    """A file and its channels, which refer only to the file's bytes."""

    def __init__(self, path: str) -> None:
        self.content = Path(path).read_bytes()
        self.channels = [ChannelOfBytes(self.content, 0), ChannelOfBytes(self.content, 1)]


class Recordings(Dataset[torch.Tensor]):
    """A dataset with the loudness of each recording's channels."""

    made: type[Recording] | type[RecordingWithoutCycle] = Recording

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        recording = self.made(self.paths[index])
        return torch.tensor([channel.loudness() for channel in recording.channels])


class RecordingsWithoutCycles(Recordings):
    """A dataset with the channels' loudness, from recordings that Python frees right after use."""

    made = RecordingWithoutCycle


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and measure how much the average worker grew."""
    return Finding(growth(loader), "MB that each worker grew by")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose channels refer to their recording."""
    return Case(load(Recordings(_paths()), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose channels refer only to the bytes of their recording."""
    return Case(load(RecordingsWithoutCycles(_paths()), workers, start_method), train)


def _paths() -> tuple[str, ...]:
    return shared_recordings(120, 200_000)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(3))
