"""What are the samples like when main draws them itself?

Iterate a stream. Draw any other dataset's samples in the sampler's order, then some of them again
with the same seeds and without seeds, and also the one past the end. The collate function joins the
same samples twice, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence, Samples
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench, described
from dltutor.diagnosis.kit.busiest import Busiest
from dltutor.diagnosis.kit.digests import digest, size
from dltutor.diagnosis.kit.pins import Pins, global_states, seed_all, wrap_draws
from dltutor.diagnosis.kit.side_effects import Reading, caught_while, things_left
from dltutor.observation.foreign import is_a

_MOSTLY: Final = 0.5  # of the time of all samples
_DRAWN: Final = 256  # samples at most
_LOOKED: Final = 3.0  # seconds for them
_AGAIN: Final = 24  # of these, drawn again
_AGAIN_FOR: Final = 2.0  # seconds at most
_TIMES: Final = 4  # that each of them is drawn again
_FEW: Final = 5  # things left behind may be a pool or a cache
_SEEDED: Final = 4  # samples, each after another seed
_BEYOND: Final = 0.3  # seconds per sample, at most, to try the index past the end
_QUICKLY: Final = 0.3  # seconds for a sampler
_FAILED: Final = 40  # failures that are kept
_ALIKE: Final = 3  # equal samples, at most; if more are equal, they're meant to be
_TRACED: Final = 8  # groups of them


def needed(evidence: Evidence | None) -> bool:
    """Always ask, because how this ends says whether a sample or a worker is to blame."""
    return True


def ask(bench: Bench) -> Samples:
    """Draw samples in main until time is up, then draw some of them again."""
    if bench.stream:
        return _stream(bench)
    dataset = bench.dataset
    record = _Record()
    previous: tuple[Any, str] | None = None
    joined: list[Any] = []
    by_sampler = _counted(dataset)
    began = time.monotonic()
    indices = bench.indices()[:_DRAWN]
    dealing, reading = time.monotonic() - began, Reading()
    drawn_by_sampler, busiest = len(by_sampler), Busiest()
    busiest.start()
    until = time.monotonic() + _LOOKED
    for place, key in enumerate(indices):
        if time.monotonic() > until:
            break
        # A dataset may take keys that aren't numbers. Then use the position in the order.
        index = key if isinstance(key, int) else place
        bench.mark.set(index)
        sample = record.draw(partial(dataset.__getitem__, key), index, key)
        if previous and digest(previous[0]) != previous[1]:
            record.overwritten += 1
        previous = None if sample is _NOTHING else (sample, digest(sample))
        if previous and len(joined) < (bench.inner.batch_size or 1):
            joined.append(sample)
    bench.mark.set(-1)
    read, (line, share, _) = reading.told(), busiest.stop()
    keys = record.quick(_AGAIN_FOR / _TIMES)[:_AGAIN]
    before = things_left()
    again, unlike, draws = _again(dataset, keys)
    left = tuple(
        (what, count - before[what], draws)
        for what, count in things_left().items()
        if count - before[what] >= draws // 2 > _FEW
    )
    return record.told(
        **read,
        busiest=line if share > _MOSTLY else "",
        drawn_by_sampler=drawn_by_sampler,
        dealing=dealing,
        dealing_each=_dealing_each(bench),
        dealt=_dealt(bench) if dealing < _QUICKLY else (),
        replaced=_replaced(dataset, record),
        again=again,
        random=unlike,
        left=left if draws else None,
        seeded=_seeded(dataset, keys[:_SEEDED]),
        joined=_joined(bench, joined),
        beyond=_beyond(dataset, record) if record.typical() < _BEYOND else -1,
    )


def cut_short(stopped: str, code: int | None, mark: int) -> Samples:
    """Record a sample that ended the process or never arrived."""
    return Samples(
        looked=0, ended="hung" if stopped else "died", at=mark, code=None if stopped else code
    )


def _dealing_each(bench: Bench) -> float:
    moments, until = [], time.monotonic() + 2 * _QUICKLY
    for _ in islice(bench.dealer, _DRAWN):
        moments.append(time.monotonic())
        if moments[-1] > until:
            break
    return (moments[-1] - moments[0]) / (len(moments) - 1) if len(moments) > 2 else 0.0


def _counted(dataset: Any) -> list[None]:
    # Grows by one whenever a sample is drawn, by whomever.
    draws: list[None] = []

    def around(draw: Callable[[], Any]) -> Any:
        draws.append(None)
        return draw()

    wrap_draws(dataset, around)
    return draws


class _Nothing:
    """A sample that raised."""


_NOTHING: Final = _Nothing()


class _Record:
    def __init__(self) -> None:
        self.drawn: list[tuple[int, Any]] = []  # with the key it was drawn by
        self.seconds: list[tuple[float, int]] = []
        self.failed: list[tuple[int, str, str, str]] = []
        self.contents: dict[str, list[Any]] = {}  # the keys that returned each content
        self.sizes: list[int] = []
        self.overwritten = 0
        self.ended = ""

    def draw(self, make: Callable[[], Any], index: int, key: Any) -> Any:
        began = time.perf_counter()
        try:
            sample = make()
        except BaseException as error:  # even SystemExit, because that's what we look for
            if len(self.failed) < _FAILED:
                self.failed.append((index, *described(error)))
            return _NOTHING
        finally:
            self.seconds.append((time.perf_counter() - began, index))
        self.take(sample, index, key)
        return sample

    def take(self, sample: Any, index: int, key: Any) -> None:
        self.drawn.append((index, key))
        self.contents.setdefault(digest(sample), []).append(key)
        self.sizes.append(size(sample))

    def typical(self) -> float:
        return median(each for each, _ in self.seconds) if self.seconds else 0.0

    def quick(self, seconds: float) -> list[Any]:
        slow = {index for took, index in self.seconds if took > seconds}
        return [key for index, key in self.drawn if index not in slow]

    def told(self, **further: Any) -> Samples:
        slowest = max(self.seconds, default=(0.0, -1))
        return Samples(
            looked=len(self.drawn),
            failed=tuple(self.failed),
            ended=self.ended,
            typical=self.typical(),
            slowest=slowest[0],
            slowest_at=slowest[1],
            overwritten=self.overwritten,
            bytes=int(median(self.sizes)) if self.sizes else 0,
            **further,
        )


def _stream(bench: Bench) -> Samples:
    record = _Record()
    previous: tuple[Any, str] | None = None
    reading = Reading()
    until = time.monotonic() + _LOOKED
    source = iter(bench.dataset)
    for number in range(_DRAWN):
        if time.monotonic() > until:
            record.ended = "time"
            break
        bench.mark.set(number)
        began = time.perf_counter()
        try:
            sample = next(source)
        except StopIteration:
            break
        except BaseException as error:
            record.failed.append((number, *described(error)))
            break
        record.seconds.append((time.perf_counter() - began, number))
        record.take(sample, number, number)
        if previous and digest(previous[0]) != previous[1]:
            record.overwritten += 1
        previous = (sample, digest(sample))
    return record.told(**reading.told())


def _again(dataset: Any, keys: list[Any]) -> tuple[int, int, int]:
    # Random generators are held, so only the rest of the dataset can make a difference.
    pins = Pins(dataset)
    differ = unlike = draws = 0
    until = time.monotonic() + _AGAIN_FOR
    for seed, key in enumerate(keys):  # what one seed decides, another one decides differently
        if time.monotonic() > until:
            break
        draws += _TIMES
        with suppress(Exception):
            with pins.held(seed=seed):
                first = digest(dataset[key])
            with pins.held(seed=seed):
                differ += digest(dataset[key]) != first
                unlike += digest(dataset[key]) != digest(dataset[key])
    return differ, unlike, draws


def _seeded(dataset: Any, keys: list[Any]) -> tuple[str, ...]:
    # Global generators that are in the same state after every sample, whatever their state
    # before.
    states = []
    with suppress(Exception):
        for seed, key in enumerate(keys, start=1):
            seed_all(seed)
            before = global_states()
            dataset[key]
            states.append((before, global_states()))
    return tuple(
        name
        for name in (states[0][0] if len(states) == _SEEDED else ())
        if len({after[name] for _, after in states}) == 1
        and len({before[name] for before, _ in states}) == len(states)
    )


def _dealt(bench: Bench) -> tuple[tuple[int, int], ...]:
    # How many batches the sampler says it deals, and deals, twice. It costs little, because none is
    # drawn.
    counts, until = [], time.monotonic() + 2 * _QUICKLY
    for _ in range(2):
        dealt, said = 0, -1
        with suppress(Exception):
            said = len(bench.inner)
        for _ in bench.dealer:
            dealt += 1
            if time.monotonic() > until:
                return ()
        counts.append((said, dealt))
    return tuple(counts)


def _replaced(dataset: Any, record: _Record) -> tuple[tuple[int, int, str, str, str], ...]:
    # Samples that equal those of another index, and whose drawing catches an exception.
    found = []
    for same in [each for each in record.contents.values() if 1 < len(each) <= _ALIKE][:_TRACED]:
        for key in same:
            other = next(each for each in same if each != key)
            if caught := caught_while(partial(dataset.__getitem__, key)):
                found.append((key, other, *caught))
    every = [each for each in found if is_a(each[0], int) and is_a(each[1], int)]
    return tuple(every[:_TRACED])


def _joined(bench: Bench, samples: list[Any]) -> bool:
    # Copy each time, because a collate function may empty what it gets.
    with suppress(Exception), Pins(bench.dataset).held():
        batches = [digest(bench.inner.collate_fn(deepcopy(samples))) for _ in range(2)]
        return batches[0] != batches[1]
    return False


def _beyond(dataset: Any, record: _Record) -> int:
    # What's past the end: an error, a sample we've seen, or a new one?
    with suppress(BaseException):
        length = len(dataset)
        return length if digest(dataset[length]) not in record.contents else -1
    return -1


EXPERIMENT: Final = Experiment("samples", 13.0, needed, ask, cut_short)
