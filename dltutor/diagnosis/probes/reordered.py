"""Does a sample stay the same no matter what was drawn before it?

Draw the first samples twice in the sampler's order and once from the last to the first, each time
in a new fork and with the same random numbers. If the sampler's order isn't ascending, also draw
the samples in ascending order, and compare the times. Then compare the CPU time of samples at the
beginning, in the middle, and at the end of the dataset.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from statistics import median
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects import digests
from dltutor.diagnosis.objects.containers import size
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import changed, snapshot
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import Pins
from dltutor.diagnosis.running.subject import Subject, length_of
from dltutor.diagnosis.words import part_of
from dltutor.observation.foreign import is_a, number

_DRAWN: Final = 128  # the most samples to draw
_FOR: Final = 1.2  # seconds to draw the samples, if all take the typical time
_LONGEST: Final = 2.0  # the most seconds to draw the samples
_TIMES: Final = 1.5  # measure again if ascending order is this many times as fast
_LEAST: Final = 4
_DEEP: Final = 48  # samples; in a smaller dataset, don't compare the beginning with the end
_EACH: Final = 3  # how many samples to draw at the beginning, in the middle, and at the end
_ROUNDS: Final = 2  # how often to draw each of these samples
_SHALLOW: Final = 0.08  # seconds; if a typical sample takes longer, don't compare these samples
_LARGER: Final = 1.5  # a sample that's this many times as large may take longer


@dataclass(frozen=True)
class Reordered:
    """A comparison of samples drawn in the sampler's order with samples drawn from last to first.

    Args:
        looked: How many samples were compared, or 0 if two runs in the same order already differ or
            a run didn't finish.
        differ: How many samples differ between the two orders.
        index: The index of a sample that differs, as its repr.
        other: The index whose sample arrived instead in one order, as its repr, or "" if none did.
        paths: The paths of up to three numbers and containers in the dataset whose value or length
            changed while samples were drawn.
        seconds: Seconds that drawing the samples took in the sampler's order, or 0 if ascending
            order wasn't timed.
        ascending: Seconds in ascending order, or 0 if it wasn't timed, for example because the
            sampler's order is ascending.
        depths: CPU seconds per sample at the beginning, in the middle, and at the end of the
            dataset, or () if they weren't measured or samples at the end are larger.
    """

    looked: int = 0
    differ: int = 0
    index: str = ""
    other: str = ""
    paths: tuple[str, ...] = ()
    seconds: float = 0.0
    ascending: float = 0.0
    depths: tuple[float, ...] = ()

    @property
    def times(self) -> float:
        """The ratio of `seconds` to `ascending`, or 0 if `ascending` isn't known."""
        return self.seconds / self.ascending if self.ascending else 0.0

    def __str__(self) -> str:
        if not self.looked:
            return "Can't tell, because two passes in the same order didn't agree or didn't finish."
        return part_of(self.differ, self.looked, "sample", "change with the order", "do")


def needed(evidence: Evidence) -> bool:
    """Return whether samples can be drawn quickly, by index, and are the same when drawn again."""
    if evidence.parts.stream or evidence.samples is None:
        return False
    samples = evidence.samples
    return not (samples.again or samples.failed) and 0 < samples.typical < _FOR / _LEAST


def ask(subject: Subject) -> Reordered:
    """Draw the samples in the sampler's order twice and backward once, and compare them.

    If the sampler's order isn't ascending, also time the samples in ascending order.
    """
    samples = subject.known.samples if subject.known is not None else None
    typical = samples.typical if samples is not None else 0.0
    keys = subject.keys()[: min(_DRAWN, int(_FOR / max(typical, 1e-6)))]

    seeds = {key: seed for seed, key in enumerate(keys)}

    def drawn(order: list[Any], *, look: bool = False) -> _Drawn:
        return forks.in_fork(
            partial(_draw, subject.dataset, order, seeds, look=look), _LONGEST + _FOR
        )

    found = Reordered()
    try:
        first, second, backward = drawn(keys, look=True), drawn(keys), drawn(keys[::-1])
        ascending = keys
        with suppress(TypeError):  # not all keys can be sorted
            ascending = sorted(keys)
        if ascending != keys and len(first.samples) == len(keys):
            found = _timed(found, [first, second], drawn(ascending))
            if found.times > _TIMES:  # other programs may have slowed down a run
                found = _timed(found, [first, second, drawn(keys)], drawn(ascending))
        if typical < _SHALLOW and (places := _places(subject.dataset, keys)):
            with suppress(forks.NoAnswer):  # the dataset may raise an error at its end
                depths = forks.in_fork(partial(_depths, subject.dataset, places), _LONGEST)
                found = replace(found, depths=depths)
    except forks.NoAnswer:
        return found
    there, again, back = first.samples, second.samples, backward.samples
    both = [key for key in keys if key in there and key in back]
    if any(there[key] != again.get(key, there[key]) for key in both):
        return found  # samples also differ between runs in the same order
    differ = [key for key in both if there[key] != back[key]]
    found = replace(found, looked=len(both), differ=len(differ))
    if not differ:
        return found
    # A sample that differs between the directions may have the content of another sample.
    owners = {content: key for each in (back, there) for key, content in each.items()}
    pairs = ((key, owners.get(each[key], key)) for key in differ for each in (there, back))
    one, other = next((pair for pair in pairs if pair[0] != pair[1]), (differ[0], None))
    return replace(
        found,
        index=repr(one)[:40],
        other="" if other is None else repr(other)[:40],
        paths=tuple(first.changed),
    )


@dataclass(frozen=True)
class _Drawn:
    """Digests of samples drawn in one order, the seconds they took, and the paths they changed."""

    samples: dict[Any, str]
    seconds: float
    changed: list[str]


def _draw(dataset: Any, keys: Iterable[Any], seeds: dict[Any, int], *, look: bool) -> _Drawn:
    before = snapshot(dataset, _size) if look else {}
    # Draw one sample before `Pins`, because a dataset may make its generators in its first draw.
    with suppress(Exception):
        dataset[next(iter(seeds))]
    pins = Pins(dataset)
    found: dict[Any, str] = {}
    seconds = 0.0
    for key in in_time(keys, _LONGEST):
        with pins.held(seed=seeds[key]):
            began = time.perf_counter()
            sample = dataset[key]
            seconds += time.perf_counter() - began
            found[key] = digest(sample)
    paths = changed(before, snapshot(dataset, _size)) if look else []
    return _Drawn(found, seconds, paths[:3])


def _timed(found: Reordered, as_dealt: list[_Drawn], ascending: _Drawn) -> Reordered:
    least = min(each.seconds for each in as_dealt)
    least_ascending = min(found.ascending or ascending.seconds, ascending.seconds)
    return replace(found, seconds=least, ascending=least_ascending)


def _places(dataset: Any, keys: list[Any]) -> list[Sequence[int]]:
    # Return a few indices at the beginning, in the middle, and at the end, or [] if there are too
    # few samples, or if the sampler deals out anything but indices.
    length = length_of(dataset) or 0
    if length < _DEEP or not all(is_a(key, int) and 0 <= key < length for key in keys):
        return []
    return [range(first, first + _EACH) for first in (0, length // 2, length - _EACH)]


def _depths(dataset: Any, places: list[Sequence[int]]) -> tuple[float, ...]:
    # Take the least of several CPU times, because a first draw may import modules or fill a cache.
    least: dict[int, float] = {}
    sizes: dict[int, int] = {}
    for index in [*chain(*zip(*places, strict=True))] * _ROUNDS:
        began = time.thread_time()
        sample = dataset[index]
        least[index] = min(least.get(index, math.inf), time.thread_time() - began)
        sizes[index] = digests.size(sample)
    if max(sizes[each] for each in places[-1]) > _LARGER * min(sizes[each] for each in places[0]):
        return ()
    return tuple(median(least[each] for each in place) for place in places)


def _size(thing: Any) -> float | None:
    return number(thing) if is_a(thing, (int, float)) else size(thing)


EXPERIMENT: Final = probe("reordered", 12.0, needed, ask)
