"""How many threads do the workers compute with, and how many cores are there?

Run the loader with forked workers, and measure the processor time of every thread of every worker.
Do the same with one thread per worker. If more threads compute than there are cores, and a worker
has several of them, run both once more, and compare the times.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import psutil
from torch.utils.data import DataLoader

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import pace
from dltutor.diagnosis.running.one_thread import keep_to_one_thread
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import count_of
from dltutor.observation import torch_internals
from dltutor.system.this_machine import machine

COSTLY: Final = 0.001  # seconds per sample; torch rarely splits shorter work among threads
_LOOKED: Final = 1.2  # the fewest seconds to watch the workers, unless the epoch ends
_BUSY: Final = 0.15  # ignore a worker whose busiest thread computes for fewer seconds
_SHARE: Final = 0.2  # a thread counts if it computes for this share of the busiest thread's time
_TURNS: Final = 2


@dataclass(frozen=True)
class Threads:
    """A count of the threads that the workers compute with.

    Args:
        cores: How many cores this process may use.
        computing: How many threads in each worker computed at least a fifth as long as the worker's
            busiest thread, or 0 for a worker that hardly computed.
        alone: The same counts with each worker kept to one thread.
        paces: Seconds per batch in each turn, as (unchanged, with one thread per worker). Empty if
            the workers don't compute with too many threads.
    """

    cores: int
    computing: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    paces: tuple[tuple[float, float], ...] = ()

    @property
    def too_many(self) -> bool:
        """Whether more threads compute than there are cores, and more than one in some worker."""
        return sum(self.computing) > self.cores and max(self.computing, default=0) > 1

    def __str__(self) -> str:
        return f"{list(self.computing)} threads per worker, on {count_of(self.cores, 'core')}."


def needed(evidence: Evidence) -> bool:
    """Return whether there are workers, and samples so slow that torch may use several threads."""
    return (
        evidence.run.well
        and evidence.parts.workers > 0
        and evidence.samples is not None
        and evidence.samples.typical >= COSTLY
    )


def ask(subject: Subject) -> Threads:
    """Count the threads that compute and, if there are too many, compare the times of batches."""
    loader = pace.forked(subject)
    here = machine()
    cores = max(1, round(min(here.cores, here.cpu_quota or here.cores)))
    found = Threads(cores)

    def as_is() -> float | None:
        nonlocal found
        subject.in_workers()
        computing, seconds = _look(loader)
        if not found.computing:
            found = replace(found, computing=computing)
        return seconds if found.too_many else None

    def kept() -> float | None:
        nonlocal found
        subject.in_workers(keep_to_one_thread)
        computing, seconds = _look(loader)
        found = replace(found, alone=computing)
        return seconds

    paces = pace.in_turns(as_is, kept, seconds=subject.seconds, turns=_TURNS)
    return replace(found, paces=tuple(zip(paces.as_is, paces.changed, strict=True)))


def _look(loader: DataLoader[Any]) -> tuple[tuple[int, ...], float | None]:
    # Return how many threads compute in each worker, and the seconds per batch, or None for the
    # seconds if no batch arrived.
    began = time.perf_counter()
    number = 0
    with pace.left_at_once(loader) as iterator:
        workers = torch_internals.workers_of(iterator)
        spent: list[dict[int, float]] = [{} for _ in workers]
        for number, _ in enumerate(iterator, start=1):
            # If a worker has ended, keep its last numbers.
            spent = [_seconds(each.pid) or old for each, old in zip(workers, spent, strict=True)]
            if number >= len(workers) and time.perf_counter() - began > _LOOKED:
                break
        took = time.perf_counter() - began
    return tuple(map(_computing, spent)), took / number if number else None


def _seconds(pid: int | None) -> dict[int, float]:
    with suppress(psutil.Error):
        return {
            each.id: each.user_time + each.system_time for each in psutil.Process(pid).threads()
        }
    return {}


def _computing(spent: dict[int, float]) -> int:
    most = max(spent.values(), default=0.0)
    # Don't count a thread that computes far less than the busiest one. Usually, the thread that
    # sends batches is such a thread.
    return sum(each >= _SHARE * most for each in spent.values()) if most >= _BUSY else 0


EXPERIMENT: Final = probe("threads", 14.0, needed, ask)
