"""How much lies ahead of the loop, and does it deliver batches any faster?

The loop stops after its first batch until nothing more is loaded; then some batches are taken, in
turns with the prefetch that was chosen and with two batches for each worker.
"""

from __future__ import annotations

import time
from typing import Any, Final

from dltutor.diagnosis.evidence import Ahead, Evidence
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench
from dltutor.failures.kit.gauge import Gauge
from dltutor.tables import MB

_DEFAULT: Final = 2
_MUCH: Final = 16 * MB
_FILLING: Final = 3.0  # seconds for the batches ahead
_QUIET: Final = 0.4  # seconds in which no more come
_TURNS: Final = 2
_TAKING: Final = 0.8  # seconds for the batches that are taken


def needed(evidence: Evidence | None) -> bool:
    """Where the prefetch is more than the default, and makes for many megabytes."""
    if evidence is None or not evidence.run.well:
        return False
    parts, run = evidence.parts, evidence.run
    weight = max(run.batch_bytes, run.storage_bytes)
    return parts.prefetch > _DEFAULT and parts.workers * parts.prefetch * weight >= _MUCH


def ask(bench: Bench) -> Ahead:
    """Measure what lies ahead, and how long a batch takes."""
    chosen = bench.inner.prefetch_factor or _DEFAULT
    bench.change(method="fork")
    held = _held(bench, chosen)
    held_by_two = _held(bench, _DEFAULT)
    # In turns, and the quickest of each: something else may be running.
    seconds, by_two = _paces(bench, chosen, 0.0)
    # And for a loop that takes about as long as they do: it is what uneven samples hold up.
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
    # Seconds for a batch, in as many epochs as there is time for.
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
