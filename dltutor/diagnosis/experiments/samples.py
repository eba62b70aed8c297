"""What is each sample, drawn by itself in a main process?

A stream is iterated; of any other dataset the samples are drawn in the order of the sampler, then
again: under the same seeds, without seeds, and the one past the end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.bench import Bench
from dltutor.diagnosis.digests import digest, leaves, shape
from dltutor.diagnosis.experiments.parts import inside
from dltutor.failures.kit.evidence import Evidence, Samples
from dltutor.observation import errors
from dltutor.observation.texts import tidy
from dltutor.tables import MB

FIELD: Final = "samples"
SECONDS: Final = 8.0

_DRAWN: Final = 256  # samples at most
_LOOKED: Final = 3.0  # seconds for them
_AGAIN: Final = 24  # of these are drawn again
_AGAIN_FOR: Final = 2.0  # seconds at most
_TIMES: Final = 4  # that each of them is drawn again
_BEYOND: Final = 0.3  # seconds that a sample may take, for the index past the end to be tried
_FAILED: Final = 40  # failures that are kept
_DEEP: Final = 4


def needed(evidence: Evidence | None) -> bool:
    """Always: how it ends says whether a sample or a worker is to blame."""
    return True


def ask(bench: Bench) -> Samples:
    """Draw them."""
    if bench.stream:
        return _stream(bench)
    order = bench.indices()
    dataset = bench.dataset
    before, sizes = _arrays(dataset), _sizes(dataset)
    record = _Record()
    previous: tuple[Any, str] | None = None
    until = time.monotonic() + _LOOKED
    for index in order[:_DRAWN]:
        if time.monotonic() > until:
            break
        bench.mark.set(index)
        sample = record.draw(partial(dataset.__getitem__, index), index)
        if previous and digest(previous[0]) != previous[1]:
            record.overwritten += 1
        previous = None if sample is _NOTHING else (sample, digest(sample))
    grown = _grown(sizes, _sizes(dataset))
    changed = [path for path, content in _arrays(dataset).items() if before.get(path) != content]
    bench.mark.set(-1)
    again = _again(dataset, record.quick(_AGAIN_FOR / _TIMES)[:_AGAIN])
    beyond, stops = -1, -1
    if _can_count(dataset) and record.typical() < _BEYOND:
        beyond, stops = _beyond(dataset, record)
    return record.told(
        again=again[0],
        twice=again[1],
        random=again[2],
        changed=tuple(changed),
        beyond=beyond,
        stops=stops,
        grown=tuple(grown),
    )


def cut_short(stopped: str, code: int | None, mark: int) -> Samples:
    """A sample has ended the process, or did not come."""
    return Samples(
        looked=0, ended="hung" if stopped else "died", at=mark, code=None if stopped else code
    )


class _Nothing:
    """Stands for a sample that raised."""


_NOTHING: Final = _Nothing()


class _Record:
    def __init__(self) -> None:
        self.drawn: list[int] = []
        self.seconds: list[tuple[float, int]] = []
        self.failed: list[tuple[int, str, str, str]] = []
        self.nones: list[int] = []
        self.shapes: dict[str, None] = {}
        self.contents: set[str] = set()
        self.overwritten = 0
        self.ended = ""

    def draw(self, make: Callable[[], Any], index: int) -> Any:
        began = time.perf_counter()
        try:
            sample = make()
        except BaseException as error:  # also SystemExit: that is what is looked for
            if len(self.failed) < _FAILED:
                self.failed.append((index, *described(error)))
            return _NOTHING
        finally:
            self.seconds.append((time.perf_counter() - began, index))
        self.take(sample, index)
        return sample

    def take(self, sample: Any, index: int) -> None:
        self.drawn.append(index)
        self.contents.add(digest(sample))
        if len(self.shapes) < 5:
            self.shapes[shape(sample)] = None
        if len(self.nones) < _FAILED and any(leaf is None for _, leaf in leaves(sample)):
            self.nones.append(index)

    def typical(self) -> float:
        return median(each for each, _ in self.seconds) if self.seconds else 0.0

    def quick(self, seconds: float) -> list[int]:
        slow = {index for took, index in self.seconds if took > seconds}
        return [index for index in self.drawn if index not in slow]

    def told(self, **further: Any) -> Samples:
        slowest = max(self.seconds, default=(0.0, -1))
        return Samples(
            looked=len(self.drawn),
            failed=tuple(self.failed),
            nones=tuple(self.nones),
            shapes=tuple(self.shapes),
            ended=self.ended,
            typical=self.typical(),
            slowest=slowest[0],
            slowest_at=slowest[1],
            overwritten=self.overwritten,
            **further,
        )


def described(error: BaseException) -> tuple[str, str, str]:
    """The type of an exception, the first line of its text, and the innermost line of yours."""
    read = errors.read(error)
    text = tidy(str(error)).strip().splitlines() if _has_text(error) else []
    at = str(read.traceback[-1]) if read.traceback else ""
    return type(error).__name__, text[0][:200] if text else "", at


def _has_text(error: BaseException) -> bool:
    with suppress(Exception):
        return bool(str(error))
    return False


def _stream(bench: Bench) -> Samples:
    record = _Record()
    previous: tuple[Any, str] | None = None
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
        record.take(sample, number)
        if previous and digest(previous[0]) != previous[1]:
            record.overwritten += 1
        previous = (sample, digest(sample))
    return record.told()


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _again(dataset: Any, indices: list[int]) -> tuple[int, int, int]:
    # Own generators are put back where they were: then only what the dataset holds can differ.
    states = _generators(dataset)
    differ = unlike = twice = 0
    until = time.monotonic() + _AGAIN_FOR
    for index in indices:
        if time.monotonic() > until:
            break
        with suppress(Exception):
            contents = []
            for _ in range(2):
                _seed()
                for generator, state in states:
                    _put_back(generator, state)
                contents.append(digest(dataset[index]))
            twice += 1
            differ += contents[0] != contents[1]
            unlike += digest(dataset[index]) != digest(dataset[index])
    return differ, twice, unlike


def _generators(dataset: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for _, each in _reach(dataset):
        if isinstance(each, np.random.Generator):
            found.append((each, each.bit_generator.state))
        elif isinstance(each, np.random.RandomState):
            found.append((each, each.get_state()))
        elif isinstance(each, random.Random):
            found.append((each, each.getstate()))
        elif isinstance(each, torch.Generator):
            found.append((each, each.get_state()))
    return found


def _put_back(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def _reach(dataset: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any, int]] = [("dataset", dataset, _DEEP)]
    seen: set[int] = set()
    while waiting and len(seen) < 2000:
        path, thing, depth = waiting.pop(0)
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        found.append((path, thing))
        if depth:
            waiting += [(name, each, depth - 1) for name, each in inside(path, thing)]
    return found


def _arrays(dataset: Any) -> dict[str, str]:
    # Of a large array a few rows: the samples that were drawn are not known to be among them.
    found = {}
    for path, thing in _reach(dataset):
        if isinstance(thing, (np.ndarray, torch.Tensor)) and thing.size:
            small = getattr(thing, "nbytes", 0) < 64 * MB
            with suppress(Exception):
                found[path] = digest(thing if small else thing[:: max(len(thing) // 1000, 1)])
    return found


def _sizes(dataset: Any) -> dict[str, tuple[int, float]]:
    found = {}
    for path, thing in _reach(dataset):
        if isinstance(thing, (list, dict, set)):
            found[path] = (len(thing), _weight(thing))
        elif hasattr(thing, "cache_info"):
            found[path] = (thing.cache_info().currsize, 0.0)
    with suppress(Exception):
        for name, each in vars(type(dataset)).items():
            if hasattr(each, "cache_info"):
                found[f"dataset.{name}"] = (each.cache_info().currsize, 0.0)
    return found


def _weight(container: Any) -> float:
    values = list(container.values() if isinstance(container, dict) else container)
    some = list(islice(values, 32))
    known = [float(_bytes(each)) for each in some]
    return sum(known) / max(len(some), 1) * len(values) / MB


def _bytes(thing: Any) -> float:
    return sum(
        getattr(leaf, "nbytes", 0) or (len(leaf) if isinstance(leaf, (str, bytes)) else 0)
        for _, leaf in leaves(thing, depth=4)
    )


def _grown(
    before: dict[str, tuple[int, float]], after: dict[str, tuple[int, float]]
) -> list[tuple[str, int, int, float]]:
    return [
        (path, before.get(path, (0, 0.0))[0], count, weight - before.get(path, (0, 0.0))[1])
        for path, (count, weight) in after.items()
        if count > before.get(path, (0, 0.0))[0]
    ]


def _can_count(dataset: Any) -> bool:
    with suppress(Exception):
        return len(dataset) > 0
    return False


def _beyond(dataset: Any, record: _Record) -> tuple[int, int]:
    # What is past the end: something new, and then an end of its own?
    length = len(dataset)
    with suppress(BaseException):
        content = digest(dataset[length])
        if content in record.contents:
            return -1, -1
        for step in (length + 1, 2 * length, 4 * length, 100 * length + 10_000_019):
            try:
                dataset[step]
            except (IndexError, KeyError, OSError, ValueError, RuntimeError):
                return length, step
        return length, -1
    return -1, -1
