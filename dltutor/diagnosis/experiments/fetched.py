"""Are the loader's batches made of what `dataset[i]` gives?

The first batches are fetched as the loader does it, and made by hand of the dataset's own samples,
in one process and under the same random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.diagnosis.evidence import Evidence, Fetched
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.digests import digest, rows
from dltutor.diagnosis.kit.pins import Pins
from dltutor.observation.foreign import attribute, elements, is_a, kind_of

_BATCHES: Final = 4
_FOR: Final = 4.0  # seconds
_LONG: Final = 1.0  # seconds for a batch, drawn three times


def needed(evidence: Evidence | None) -> bool:
    """Where the loader makes batches of samples that can be asked for one by one."""
    if evidence is None or evidence.parts.stream:
        return False
    samples = evidence.samples
    if samples is None or not samples.looked:
        return False
    return max(samples.typical * (evidence.parts.batch_size or 1), samples.dealing) < _LONG


def ask(bench: Bench) -> Fetched:
    """Make some batches both ways."""
    pins = Pins(bench.dataset)
    batches = _dealt(bench)
    once = batches != _dealt(bench)
    looked, differ, until = 0, 0, time.monotonic() + _FOR
    ragged: dict[str, tuple[int, int]] = {}
    dropped: dict[str, tuple[int, int]] = {}
    for keys in batches:
        if time.monotonic() > until:
            break
        with suppress(Exception):  # a sample that fails is looked for elsewhere
            first = digest(_by_hand(bench, pins, keys)[1])
            samples, batch = _by_hand(bench, pins, keys)
            _fields(samples, batch, ragged, dropped)
            if digest(batch) == first:
                looked += len(keys)
                differ += len(keys) * (_fetched(bench, pins, keys) != first)
    return Fetched(
        looked=looked,
        differ=differ,
        by=_maker(bench.dataset),
        ragged=tuple((name, *found) for name, found in ragged.items()),
        dropped=tuple((name, *found) for name, found in dropped.items()),
        dealt_once=once,
    )


def _dealt(bench: Bench) -> list[list[Any]]:
    bench.seed(0)
    found: list[list[Any]] = []
    for keys in bench.inner.batch_sampler or ():
        found.append(list(keys))
        if len(found) == _BATCHES:
            break
    return found


def _by_hand(bench: Bench, pins: Pins, keys: list[Any]) -> tuple[list[Any], Any]:
    with pins.held():
        samples = [bench.dataset[key] for key in keys]
        return samples, bench.inner.collate_fn(list(samples))


def _fetched(bench: Bench, pins: Pins, keys: list[Any]) -> str:
    loader: DataLoader[Any] = DataLoader(
        bench.dataset,
        batch_sampler=[keys],
        collate_fn=bench.inner.collate_fn,
        generator=torch.Generator(),  # the iterator's own draw is none of the dataset's
    )
    with pins.held():
        return digest(next(iter(loader)))


def _maker(dataset: Any) -> str:
    method = attribute(dataset, "__getitems__")
    if not callable(method):
        return ""
    return kind_of(attribute(method, "__self__", dataset))


def _fields(
    samples: list[Any],
    batch: Any,
    ragged: dict[str, tuple[int, int]],
    dropped: dict[str, tuple[int, int]],
) -> None:
    # Of samples that don't all have the same fields: what became of those that only some have.
    if not is_a(batch, Mapping) or not all(is_a(each, Mapping) for each in samples):
        return
    have: dict[str, int] = {}
    for sample in samples:
        for name, _ in elements(sample):
            have[str(name)] = have.get(str(name), 0) + 1
    came = {str(name): each for name, each in elements(batch)}
    for name, count in have.items():
        if count == len(samples):
            continue
        if name not in came:
            dropped.setdefault(name, (count, len(samples)))
        elif rows(came[name]) == count:
            ragged.setdefault(name, (count, len(samples)))


EXPERIMENT: Final = Experiment("fetched", 9.0, needed, ask)
