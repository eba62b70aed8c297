"""How much memory do the batches that are loaded ahead take up?

The loop takes one batch and stops until the workers load nothing more. Then it takes batches for a
while, alternating between the prefetch you chose and two batches per worker, to see which is
faster.
"""

from __future__ import annotations

import time
from typing import Any, Final

from dltutor.diagnosis.evidence import Ahead, Evidence
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench
from dltutor.failures.tools.gauge import Gauge
from dltutor.tables import MB

_DEFAULT: Final = 2
_MUCH: Final = 16 * MB
_FILLING: Final = 3.0  # seconds for the batches ahead
_QUIET: Final = 0.4  # seconds without a new one
_TURNS: Final = 2
_TAKING: Final = 0.8  # seconds for the batches that are taken


def needed(evidence: Evidence | None) -> bool:
    """Ask if the prefetch is above the default and adds up to many megabytes."""
    if evidence is None or not evidence.run.well:
        return False
    parts, run = evidence.parts, evidence.run
    weight = max(run.batch_bytes, run.storage_bytes)
    return parts.prefetch > _DEFAULT and parts.workers * parts.prefetch * weight >= _MUCH


def ask(bench: Bench) -> Ahead:
    """Measure how much is loaded ahead, and how long a batch takes."""
    chosen = bench.inner.prefetch_factor or _DEFAULT
    bench.change(method="fork")
    held = _held(bench, chosen)
    held_by_two = _held(bench, _DEFAULT)
    # Alternate and keep the fastest of each, because something else may be running.
    seconds, by_two = _paces(bench, chosen, 0.0)
    # Also time a loop that takes about as long as the batches do. Uneven samples hold it up.
    steady, steady_by_two = _paces(bench, chosen, min(seconds, by_two))
    return Ahead(held, held_by_two, seconds, by_two, steady, steady_by_two)


def _paces(bench: Bench, chosen: int, rest: float) -> tuple[float, float]:
    paces = [(_pace(bench, chosen, rest), _pace(bench, _DEFAULT, rest)) for _ in range(_TURNS)]
    seconds, by_two = (min(each) for each in zip(*paces, strict=True))
    return seconds, by_two


def _held(bench: Bench, prefetch: int) -> float:
    bench.change(prefetch_factor=prefetch)
    gauge = Gauge()
    iterator: Any = iter(bench.loader)
    batch = next(iterator)
    until = time.monotonic() + _FILLING
    most, since = gauge.shared(), time.monotonic()
    while time.monotonic() < until and time.monotonic() - since < _QUIET:
        time.sleep(0.02)
        if (now := gauge.shared()) > most:
            most, since = now, time.monotonic()
    del batch
    return most


def _pace(bench: Bench, prefetch: int, rest: float) -> float:
    # Seconds per batch, over as many epochs as fit.
    taken = 0
    began = time.monotonic()
    while time.monotonic() - began < _TAKING:
        bench.change(prefetch_factor=prefetch)
        before = taken
        for _ in bench.loader:
            taken += 1
            time.sleep(rest)
            if time.monotonic() - began > _TAKING:
                break
        if taken == before:
            break
    return (time.monotonic() - began) / max(taken, 1)


EXPERIMENT: Final = Experiment("ahead", 14.0, needed, ask)
