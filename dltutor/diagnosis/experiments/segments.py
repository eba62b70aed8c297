"""If the whole run is killed, what's left in shared memory?

Let a run take a few batches, then kill it the way a batch system kills a job. Count what it leaves
behind and remove it. This is asked only when batches are shared by name.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NoReturn

import torch.multiprocessing

from dltutor.diagnosis.evidence import Evidence, Segments
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.changed_batches import at_start
from dltutor.system import processes

_BATCHES: Final = 4
_READY: Final = 5.0  # seconds to get them
_GONE: Final = 2.0  # seconds for all of them to exit
_MANAGER: Final = b"torch_shm_manager"


def needed(evidence: Evidence | None) -> bool:
    """Ask if the sharing strategy may differ from the default."""
    if evidence is None or not evidence.parts.workers:
        return False
    by_name = torch.multiprocessing.get_sharing_strategy() == "file_system"
    return by_name or bool(evidence.parts.init)


def ask(bench: Bench) -> Segments:
    """Start a run, kill it, and count what it left."""
    shared = mmap.mmap(-1, 8)

    def begin() -> None:
        shared[0] = torch.multiprocessing.get_sharing_strategy() == "file_system"
        shared[1] = 1

    at_start(bench, begin)
    in_main = torch.multiprocessing.get_sharing_strategy()
    run = os.fork()
    if run == 0:
        _hold(bench, shared)
    until = time.monotonic() + _READY
    while not shared[2] and time.monotonic() < until and processes.is_alive(run):
        time.sleep(0.02)
    count = shared[3]
    family = {run} | processes.descendants(run)
    held = {name: file for pid in family for name, file in processes.segments_of(pid).items()}
    _kill(family)
    left = held.keys() & processes.segments()
    processes.unlink_segments(held)
    by_name = shared[0] if shared[1] else in_main == "file_system"
    in_workers = "file_system" if by_name else "file_descriptor"
    return Segments(count, len(left), in_workers, in_main)


def _hold(bench: Bench, shared: mmap.mmap) -> NoReturn:
    try:
        iterator: Any = iter(bench.loader)
        batches = list(islice(iterator, _BATCHES))
        shared[3] = len(batches)
        shared[2] = 1
        time.sleep(60)
    finally:
        os._exit(1)


def _kill(family: set[int]) -> None:
    # Kill the managers first, because we can't kill all at one instant the way the kernel does.
    for pid in sorted(family, key=lambda pid: not processes.has_name(pid, _MANAGER)):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + _GONE
    while time.monotonic() < until and any(map(processes.is_alive, family)):
        with suppress(OSError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.02)


EXPERIMENT: Final = Experiment("segments", 8.0, needed, ask)
