"""How much memory do the batches that are loaded ahead take up?

Take one batch, wait until the workers load nothing more, and measure the shared memory, first with
your prefetch_factor and then with two batches per worker. Then time batches, alternating between
the two settings.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running.subject import Subject
from dltutor.failures.tools.gauge import Gauge
from dltutor.tables import MB

_DEFAULT: Final = 2
_MUCH: Final = 16 * MB
_FILLING: Final = 3.0  # the most seconds that the workers get to load batches ahead
_QUIET: Final = 0.4  # seconds without more shared memory until the workers count as done
_TURNS: Final = 2
_TAKING: Final = 0.8  # seconds to take batches in each turn


@dataclass(frozen=True)
class Ahead:
    """A comparison of the loader's own prefetch_factor with 2, in memory and in time.

    Args:
        held: MB of batches in shared memory with the loader's own prefetch_factor.
        held_by_two: MB of batches in shared memory with prefetch_factor=2.
        seconds: Seconds per batch with the loader's own prefetch_factor.
        seconds_by_two: Seconds per batch with prefetch_factor=2.
        steady: Seconds per batch with the loader's own prefetch_factor, in a loop that pauses after
            each batch for as long as a batch takes. The pause counts.
        steady_by_two: Seconds per batch with prefetch_factor=2, in the loop that pauses.
    """

    held: float
    held_by_two: float
    seconds: float
    seconds_by_two: float
    steady: float
    steady_by_two: float

    def __str__(self) -> str:
        return f"{self.held:.0f} MB. With two batches per worker, it's {self.held_by_two:.0f} MB."


def needed(evidence: Evidence) -> bool:
    """Return whether a prefetch_factor above the default lets workers load 16 MB or more ahead."""
    if not evidence.run.well:
        return False
    parts, run = evidence.parts, evidence.run
    weight = max(run.batch_bytes, run.storage_bytes)
    return parts.prefetch > _DEFAULT and parts.workers * parts.prefetch * weight >= _MUCH


def ask(subject: Subject) -> Ahead:
    """Compare the memory and the time that batches take with the loader's prefetch_factor and 2."""
    chosen = subject.inner.prefetch_factor or _DEFAULT
    subject.change(method="fork")
    held = _held(subject, chosen)
    held_by_two = _held(subject, _DEFAULT)
    # Alternate and keep the best time for each, because other programs may slow down a turn.
    seconds, by_two = _paces(subject, chosen, 0.0)
    # Also time a loop that spends as much time on a batch as the workers do. If some samples are
    # slower than others, such a loop waits less with more batches ahead.
    steady, steady_by_two = _paces(subject, chosen, min(seconds, by_two))
    return Ahead(held, held_by_two, seconds, by_two, steady, steady_by_two)


def _paces(subject: Subject, chosen: int, rest: float) -> tuple[float, float]:
    paces = [(_pace(subject, chosen, rest), _pace(subject, _DEFAULT, rest)) for _ in range(_TURNS)]
    seconds, by_two = (min(each) for each in zip(*paces, strict=True))
    return seconds, by_two


def _held(subject: Subject, prefetch: int) -> float:
    subject.change(prefetch_factor=prefetch)
    gauge = Gauge()
    iterator: Any = iter(subject.loader)
    batch = next(iterator)
    until = time.monotonic() + _FILLING
    most, since = gauge.shared(), time.monotonic()
    while time.monotonic() < until and time.monotonic() - since < _QUIET:
        time.sleep(0.02)
        if (now := gauge.shared()) > most:
            most, since = now, time.monotonic()
    del batch
    return most


def _pace(subject: Subject, prefetch: int, rest: float) -> float:
    # Return the seconds per batch, pauses of `rest` seconds included, over as many epochs as fill
    # `_TAKING` seconds.
    taken = 0
    began = time.monotonic()
    while time.monotonic() - began < _TAKING:
        subject.change(prefetch_factor=prefetch)
        before = taken
        for _ in subject.loader:
            taken += 1
            time.sleep(rest)
            if time.monotonic() - began > _TAKING:
                break
        if taken == before:
            break
    return (time.monotonic() - began) / max(taken, 1)


EXPERIMENT: Final = probe("ahead", 14.0, needed, ask)
