"""Does a sample stay the same when it's drawn twice in a row?

Each sample is tried in its own fork: first of all, after others, and after itself, with all random
numbers held. A sample counts only if drawing that same sample is what changes it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.evidence import Evidence, Twice
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import forks
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.pins import Pins
from dltutor.diagnosis.kit.walking import Found, put, walk
from dltutor.observation.foreign import is_a, number

_TRIED: Final = 4


def needed(evidence: Evidence | None) -> bool:
    """Ask if some samples came out different with the same seeds."""
    return evidence is not None and evidence.samples is not None and evidence.samples.again > 0


def ask(bench: Bench) -> Twice:
    """Draw some samples first, after others, and twice."""
    order = list(dict.fromkeys(bench.indices()))
    looked = own = 0
    found: list[str] = []
    first = ""
    for seed, index in enumerate(order[:_TRIED], start=1):
        draw = partial(_last, bench, seed=seed)
        others = [each for each in order[: _TRIED + 2] if each != index]
        with suppress(forks.NoAnswer):
            # What is changed twice may be as before, so look after the first time.
            new, paths = forks.in_fork(partial(draw, [index]), 1.5)
            later, _ = forks.in_fork(partial(draw, [*others, index]), 1.5)
            again, _ = forks.in_fork(partial(draw, [index, index]), 1.5)
            looked += 1
            if new == later != again:
                own += 1
                found = found or paths
                first = first or repr(index)
    counter = "" if own else _counter(bench, order)
    return Twice(looked=looked, own=own, paths=tuple(found[:3]), index=first, counter=counter)


def _counter(bench: Bench, order: list[Any]) -> str:
    """Find the number that decides what a sample is and that other draws change; or ""."""
    index, others = order[0], order[1 : _TRIED + 2]

    def numbers() -> dict[str, Found]:
        kinds = (int, float)
        return {each.path: each for each in walk(bench.dataset) if is_a(each.thing, kinds)}

    def changed() -> tuple[str, list[str]]:
        pins, before = Pins(bench.dataset), numbers()
        for each in others:
            with pins.held():
                bench.dataset[each]
        after = numbers()
        paths = [
            path
            for path, each in before.items()
            if number(after.get(path, each).thing) != number(each.thing)
        ]
        with pins.held():
            return digest(bench.dataset[index]), paths

    def put_back(path: str) -> str:
        pins, before = Pins(bench.dataset), numbers()
        for each in others:
            with pins.held():
                bench.dataset[each]
        put(before[path])
        with pins.held():
            return digest(bench.dataset[index])

    with suppress(forks.NoAnswer):
        new, _ = forks.in_fork(partial(_last, bench, [index]), 1.5)
        later, paths = forks.in_fork(changed, 1.5)
        for path in paths[:3] if later != new else []:
            if forks.in_fork(partial(put_back, path), 1.5) == new:
                return str(path)
    return ""


def _last(bench: Bench, order: list[Any], seed: int = 0) -> tuple[str, list[str]]:
    pins = Pins(bench.dataset)
    before = _content(bench.dataset, order[-1])
    content = ""
    for index in order:
        with pins.held(seed=seed):
            content = digest(bench.dataset[index])
    after = _content(bench.dataset, order[-1])
    return content, [path for path, each in after.items() if before.get(path, each) != each]


def _content(dataset: Any, index: Any) -> dict[str, str]:
    """Return a dataset's arrays, and what its containers hold for an index."""
    found = {}
    for each in walk(dataset):
        with suppress(Exception):
            if is_a(each.thing, (np.ndarray, torch.Tensor)):
                small = each.thing.nbytes < 1 << 26
                found[each.path] = digest(each.thing if small else each.thing[index])
            elif is_a(each.thing, (list, tuple, dict)):
                found[each.path] = digest(each.thing[index])
    return found


EXPERIMENT: Final = Experiment("twice", 8.0, needed, ask)
