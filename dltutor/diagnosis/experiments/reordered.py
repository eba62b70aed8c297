"""Does a sample stay the same no matter what was drawn before it?

Draw the first samples in the sampler's order, twice, and once from the last to the first. Each time
runs in its own fork, with all random numbers held.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence, Reordered
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import forks
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.containers import size
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.pins import Pins
from dltutor.diagnosis.kit.walking import walk
from dltutor.observation.foreign import is_a, number

_DRAWN: Final = 128  # samples at most
_FOR: Final = 1.2  # seconds for them
_LEAST: Final = 4


def needed(evidence: Evidence | None) -> bool:
    """Ask if samples can be drawn one by one and are the same when drawn again."""
    if evidence is None or evidence.parts.stream or evidence.samples is None:
        return False
    samples = evidence.samples
    return not (samples.again or samples.failed) and 0 < samples.typical < _FOR / _LEAST


def ask(bench: Bench) -> Reordered:
    """Draw them forward, forward again, and backward."""
    samples = bench.known.samples if bench.known is not None else None
    typical = samples.typical if samples is not None else 0.0
    keys = list(dict.fromkeys(bench.indices()))[: min(_DRAWN, int(_FOR / max(typical, 1e-6)))]
    try:
        there, changed = forks.in_fork(partial(_drawn, bench.dataset, keys, look=True), 2 * _FOR)
        again, _ = forks.in_fork(partial(_drawn, bench.dataset, keys), 2 * _FOR)
        back, _ = forks.in_fork(partial(_drawn, bench.dataset, keys[::-1]), 2 * _FOR)
    except forks.NoAnswer:
        return Reordered()
    both = [key for key in keys if key in there and key in back]
    if any(there[key] != again.get(key, there[key]) for key in both):
        return Reordered()  # time or chance makes the difference, not the order
    differ = [key for key in both if there[key] != back[key]]
    if not differ:
        return Reordered(len(both))
    # What a sample is in only one direction may be the content of another sample.
    owners = {content: key for each in (back, there) for key, content in each.items()}
    pairs = ((key, owners.get(each[key], key)) for key in differ for each in (there, back))
    first, other = next((pair for pair in pairs if pair[0] != pair[1]), (differ[0], None))
    return Reordered(
        looked=len(both),
        differ=len(differ),
        index=repr(first)[:40],
        other="" if other is None else repr(other)[:40],
        paths=tuple(changed),
    )


def _drawn(
    dataset: Any, keys: Iterable[Any], *, look: bool = False
) -> tuple[dict[Any, str], list[str]]:
    # What each sample is, and with `look`, what drawing them changed in the dataset.
    pins, before = Pins(dataset), _sizes(dataset) if look else {}
    found: dict[Any, str] = {}
    until = time.monotonic() + _FOR
    for key in keys:
        with pins.held():
            found[key] = digest(dataset[key])
        if time.monotonic() > until:
            break
    after = _sizes(dataset) if look else {}
    return found, [path for path, each in after.items() if before.get(path, each) != each][:3]


def _sizes(dataset: Any) -> dict[str, Any]:
    # Its numbers, and how much its containers hold.
    found = {}
    for each in walk(dataset):
        of = number(each.thing) if is_a(each.thing, (int, float)) else size(each.thing)
        if of is not None:
            found[each.path] = of
    return found


EXPERIMENT: Final = Experiment("reordered", 9.0, needed, ask)
