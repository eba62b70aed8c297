"""If the whole run is killed, what's left in shared memory?

Let a run take a few batches, then kill it the way a batch system kills a job. Count the run's
leftover segments, and remove them. The doctor asks this only if workers or main may use torch's
sharing strategy "file_system", in which segments have names and can outlive all processes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn

import torch.multiprocessing

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running.notes import Notes
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import count_of
from dltutor.system import processes

_BATCHES: Final = 4
_READY: Final = 5.0  # the most seconds for the run to get its batches
_GONE: Final = 2.0  # the most seconds for all killed processes to exit


@dataclass(frozen=True)
class Segments:
    """The shared memory that a run leaves behind when all its processes are killed at once.

    Args:
        batches: How many batches the run held.
        left: How many segments were left in /dev/shm, before the doctor removed them.
        in_workers: The workers' sharing strategy, "file_system" or "file_descriptor".
        in_main: Main's sharing strategy, "file_system" or "file_descriptor".
    """

    batches: int
    left: int
    in_workers: str
    in_main: str

    def __str__(self) -> str:
        batches = count_of(self.batches, "batch", "batches")
        return f"{count_of(self.left, 'segment')} in `/dev/shm`, from a run that held {batches}."


def needed(evidence: Evidence) -> bool:
    """Return whether workers or main may use the sharing strategy "file_system"."""
    if not evidence.parts.workers:
        return False
    by_name = torch.multiprocessing.get_sharing_strategy() == "file_system"
    return by_name or bool(evidence.parts.init)


def ask(subject: Subject) -> Segments:
    """Start a run, kill it, and count and remove the segments that it left."""
    strategy: Callable[[], str] = torch.multiprocessing.get_sharing_strategy
    notes = Notes()
    subject.change(method="fork")
    subject.in_workers(lambda worker: notes.write({"in_workers": strategy()}))
    run = os.fork()
    if run == 0:
        _hold(subject, notes)
    until = time.monotonic() + _READY
    found: dict[str, Any] = {}
    while "batches" not in found and time.monotonic() < until and processes.is_alive(run):
        time.sleep(0.02)
        found = {name: each for note in notes.read() for name, each in note.items()}
    family = {run} | processes.descendants(run)
    held = {name: file for pid in family for name, file in processes.segments_of(pid).items()}
    _kill(family)
    left = held.keys() & processes.segments()
    processes.unlink_segments(held)
    in_workers = found.get("in_workers", strategy())
    return Segments(found.get("batches", 0), len(left), in_workers, strategy())


def _hold(subject: Subject, notes: Notes) -> NoReturn:
    try:
        iterator: Any = iter(subject.loader)
        batches = list(islice(iterator, _BATCHES))
        notes.write({"batches": len(batches)})
        time.sleep(60)
    finally:
        os._exit(1)


def _kill(family: set[int]) -> None:
    # Kill the shared memory managers first, because a manager that outlives the other processes
    # removes their segments. Linux can kill all processes at the same time, but the doctor can't.
    for pid in sorted(family, key=lambda pid: not processes.has_name(pid, processes.SHM_MANAGER)):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + _GONE
    while time.monotonic() < until and any(map(processes.is_alive, family)):
        with suppress(OSError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.02)


EXPERIMENT: Final = probe("segments", 8.0, needed, ask)
