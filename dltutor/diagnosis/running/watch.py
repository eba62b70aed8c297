"""Watch what a run delivers, what the loop keeps, and how much memory the workers use."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import os
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data import DataLoader

from dltutor.diagnosis.objects import ngrams
from dltutor.diagnosis.objects.digests import (
    digest,
    joined,
    leaves,
    row_shapes,
    split,
    split_fields,
)
from dltutor.diagnosis.objects.walking import walk
from dltutor.diagnosis.running.side_effects import temporary_files
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation import torch_internals
from dltutor.observation.counting import Counted
from dltutor.observation.foreign import is_a, length_by_shape
from dltutor.tables import MB

_SEEN: Final = 2000  # the most batches in one iteration that get a digest
_PARTS: Final = 200_000  # the most parts of samples in one iteration whose digests to keep
_HELD: Final = 4000  # with this many tensors and arrays in memory, don't follow more
_LARGE: Final = 64_000  # bytes; a smaller array in a batch costs next to nothing


class Enough(BaseException):
    """Raised to end a run whose time is up."""


class Watch:
    """A record of what a loader delivers while a loop runs.

    Args:
        subject: The loader to watch.
        seconds: After how many seconds to end the run, by raising Enough at the next batch. After
            the first batch, the run goes on for at least half as long.
        content: Whether to take digests of batches and samples.
        copies: Whether the loop gets a copy of each batch (default False).
    """

    def __init__(
        self, subject: Subject, seconds: float, content: bool, copies: bool = False
    ) -> None:
        self.subject = subject
        self.content = content
        self.copies = copies
        self.until = time.monotonic() + seconds
        # Run at least this many seconds after the first batch, because workers may start slowly.
        self.least = seconds / 2
        self.passes: list[list[str]] = []
        self.drawn: list[list[str]] = []
        self.fields: list[dict[str, list[str]]] = []
        self.shapes: dict[str, set[tuple[int, ...]]] = {}  # shapes of rows, by field
        self.ngrams: ngrams.Counts | None = None  # from a stream's first iteration
        self.counted: list[int] = []
        self.finished: list[bool] = []
        self.stopped = 0  # how many iterations raised StopIteration
        self._came: list[int] = []  # how many batches each iteration delivered
        self._length = _length(subject)
        self._prepared: float | None = None  # when the loop first called `iter(loader)`
        self.first = 0.0  # seconds from that first call to the first batch
        self.pauses: list[float] = []  # seconds between two batches of one iteration
        # When each iteration began, or when its last batch had been recorded.
        self._last: dict[int, float] = {}
        self._asked: dict[int, float] = {}  # when the loop last asked each iteration for a batch
        self.longest = 0.0  # the most seconds that the loop waited for a batch
        self.ending = 0.0  # the most seconds that the loop waited for an iteration to end
        self.resumed = 0
        self.tensors = self.batches = 0
        self.batch_bytes = self.storage_bytes = 0
        self.kept = self.kept_bytes = 0
        self.kept_then: list[tuple[int, int]] = []
        self.memory: dict[int, list[float]] = {}  # MB of each worker's own memory, by pid
        self.computed: dict[int, float] = {}  # seconds that each worker computed, by pid
        self._since: dict[int, int] = {}  # the iteration in which each worker was first seen
        # For each of the first two batches, its large arrays: their paths and bytes, by content.
        self.arrays: list[dict[str, tuple[str, int]]] = []
        # In the first iteration, now and then: how many samples had arrived, and how many seconds
        # the workers had computed by then (main, if there are no workers).
        self.computed_by: list[tuple[int, float]] = []
        # For each batch after the first in the first iteration, how long the loop waited for the
        # batch, and which workers had nothing left to do when it arrived.
        self.waits: list[tuple[float, set[int]]] = []
        self._cores: dict[int, set[int]] = {}  # the cores that each worker may use, by pid
        self.state = ""  # a digest of torch's global generator, after the first `iter(loader)`
        self.files: list[int] = []
        self.gpu: list[int] = []  # bytes that main has on the GPU, at each batch
        # How many temporary files and folders there were when each of the first two finished
        # iterations ended.
        self.temporary: list[int] = []
        # How many descriptors each worker that was still running had then, by pid.
        self.opened: list[dict[int, int]] = []
        self.others = set(multiprocessing.active_children())
        self._memory: dict[int, _Kept] = {}  # the batches' memory, by address
        self._looked = 0.0
        # Weak references to iterators, each with the number of its latest iteration.
        self._open: list[tuple[weakref.ref[Any], int]] = []
        self._displaced: set[int] = set()  # unfinished iterations whose iterator the loop restarted

    @property
    def cores(self) -> set[int]:
        """The cores that at least one worker may use, or an empty set if no worker was seen."""
        return set().union(*self._cores.values())

    def prepare(self) -> None:
        """Record when the loop calls `iter(loader)` for the first time."""
        if self._prepared is None:
            self._prepared = time.monotonic()

    def begin(self, iterator: Any) -> Iterator[Any]:
        """Record that an iteration of the loader begins, and return a watched iterator."""
        own = _innermost(iterator)
        number = next((number for each, number in self._open if each() is own), None)
        if number is not None and not self.finished[number]:
            self._displaced.add(number)  # the loop restarted the iterator before the end
        if not self.passes:
            self.state = digest(torch.get_rng_state())
        self.passes.append([])
        self.drawn.append([])
        self.fields.append({})
        self.counted.append(0)
        self.finished.append(False)
        self._came.append(0)
        self._last[len(self.passes) - 1] = time.monotonic()
        self._open = [(each, number) for each, number in self._open if each() not in (None, own)]
        # If the iterator allows no weak reference, don't look for loops that restart it.
        with suppress(TypeError):
            self._open.append((weakref.ref(own), len(self.passes) - 1))
        return _Watched(iterator, self, len(self.passes) - 1)

    def deliver(self, number: int, batch: Any, samples: int | None) -> None:
        """Record one batch from an iteration.

        Args:
            number: The number of the iteration. The first one is 0.
            batch: The batch that arrived.
            samples: How many samples are in the batch. If None, the batch's shape tells how many,
                which is good enough to compare runs.

        Raises:
            Enough: Time is up.
        """
        now = time.monotonic()
        self.longest = max(self.longest, now - self._asked[number])
        if self.counted[number]:
            self.pauses.append(now - self._last[number])
            if number == 0:
                self.waits.append((now - self._asked[number], self._idle_workers()))
        if not self.batches:
            self.until = max(self.until, now + self.least)
            self.first = now - (self._prepared or now)
        self.batches += 1
        count = length_by_shape(batch) or 1 if samples is None else samples
        self.counted[number] += count
        self._came[number] += 1
        # The loop may count its batches, as Lightning does, and never ask for one more.
        self.finished[number] = self._came[number] == self._length
        if self.content and len(self.passes[number]) < _SEEN:
            self.passes[number].append(digest(batch))
            self._take_apart(number, batch, count)
            if self.subject.stream and number == 0:
                found = ngrams.count(batch)
                self.ngrams = found if self.ngrams is None else self.ngrams + found
            if len(self.arrays) < 2:
                self.arrays.append(_large_arrays(batch))
        self._weigh(batch)
        if torch.cuda.is_initialized() and len(self.gpu) < _SEEN:
            self.gpu.append(torch.cuda.memory_allocated())
        if self.batches & (self.batches - 1):
            self._look(now)
        else:  # each time the number of batches has doubled
            self._look(0)
            self.kept_then.append((self.batches, self.kept))
        self._last[number] = time.monotonic()
        if time.monotonic() > self.until:
            raise Enough

    def ask(self, number: int) -> None:
        self._asked[number] = time.monotonic()
        if number in self._displaced:
            self._displaced.discard(number)
            self.resumed += 1

    def end(self, number: int) -> None:
        self.finished[number] = True
        self.stopped += 1
        self.ending = max(self.ending, time.monotonic() - self._asked[number])
        if len(self.temporary) < 2:  # two epochs are enough to compare
            self.temporary.append(temporary_files())
            self.opened.append(self._descriptors())
        self._look(0)

    def since(self) -> float:
        """Return how many seconds ago the last batch arrived, or an iteration without one began."""
        return time.monotonic() - max(self._last.values(), default=time.monotonic())

    def _idle_workers(self) -> set[int]:
        iterator = next((each() for each, number in self._open if number == 0), None)
        return torch_internals.idle_workers(iterator)

    def _take_apart(self, number: int, batch: Any, count: int) -> None:
        fields, seen = split_fields(batch, count), self.fields[number]
        whole = joined(fields) if fields else split(batch, count) or []
        new = not self.drawn[number]
        self.drawn[number] += whole
        if new:
            seen |= {path: [] for path in fields}
        if (
            number > 1
            or seen.keys() != fields.keys()
            or len(seen) * len(self.drawn[number]) > _PARTS
        ):
            seen.clear()  # from now on, compare only whole samples of this iteration
        for path, parts in seen.items():
            parts += fields[path]
        for path, shape in row_shapes(batch, count).items():
            self.shapes.setdefault(path, set()).add(shape)

    def _weigh(self, batch: Any) -> None:
        tensors = [leaf for _, leaf in leaves(batch) if is_a(leaf, torch.Tensor)]
        self.tensors += len(tensors)
        own, storages = 0, {}
        for each in tensors:
            with suppress(RuntimeError, NotImplementedError):
                storage = each.untyped_storage()
                storages[storage.data_ptr()] = storage
                own += each.nbytes
        size = sum(each.nbytes() for each in storages.values())
        self.batch_bytes = max(self.batch_bytes, own)
        self.storage_bytes = max(self.storage_bytes, size)
        # Count memory that arrived three or more batches ago and that something still refers to.
        self._memory = {at: each for at, each in self._memory.items() if not each.gone()}
        old = [each for each in self._memory.values() if each.batch < self.batches - 2]
        self.kept = max(self.kept, len({each.batch for each in old}))
        self.kept_bytes = max(self.kept_bytes, sum(each.bytes for each in old))
        if len(self._memory) < _HELD:
            for at, whole in storages.items():
                kept = _Kept(StorageWeakRef(whole).expired, self.batches, whole.nbytes())
                self._memory.setdefault(at, kept)  # if batches share memory, the first one counts
            for array in _arrays(batch):
                reference = weakref.ref(array)
                kept = _Kept(partial(_gone, reference), self.batches, array.nbytes)
                self._memory.setdefault(array.ctypes.data, kept)

    def _descriptors(self) -> dict[int, int]:
        found = {}
        for pid in self._workers():
            with suppress(OSError):
                found[pid] = len(os.listdir(f"/proc/{pid}/fd"))
        return found

    def _workers(self) -> list[int]:
        return [each.pid or 0 for each in set(multiprocessing.active_children()) - self.others]

    def _look(self, now: float) -> None:
        # Don't look after every batch, because a look takes a millisecond or two for each worker.
        if now and self.files and now - self._looked < 0.03:
            return
        self._looked = now
        with suppress(OSError):
            self.files.append(len(os.listdir("/proc/self/fd")))
        for pid in self._workers():
            with suppress(psutil.Error, OSError):
                worker = psutil.Process(pid)
                own, times = worker.memory_full_info().uss, worker.cpu_times()
                self.computed[pid] = times.user + times.system
                self._since.setdefault(pid, len(self.passes) - 1)
                self.memory.setdefault(pid, []).append(own / MB)
                self._cores[pid] = cores_of(pid)
        if len(self.passes) == 1:
            computed = sum(self.computed.values()) or time.process_time()
            self.computed_by.append((self.counted[0], computed))

    @property
    def carried(self) -> tuple[str, int]:
        """The path of the largest array in both of the first two batches, and the total bytes.

        The total is for all arrays of at least 64,000 bytes that are in both batches.
        """
        if len(self.arrays) < 2:
            return "", 0
        first, second = self.arrays
        both = [each for content, each in first.items() if content in second]
        return max(both, key=lambda each: each[1], default=("", 0))[0], sum(n for _, n in both)

    @property
    def anew(self) -> float:
        """CPU seconds of the workers that were first seen in the second iteration."""
        return sum(self.computed[pid] for pid, number in self._since.items() if number == 1)

    @property
    def later(self) -> float:
        """CPU seconds per sample in about the first iteration's second half, or 0 if unknown."""
        if not self.computed_by:
            return 0.0
        last, whole = self.computed_by[-1]
        half, before = max(
            (each for each in self.computed_by if each[0] <= last / 2), default=(0, 0.0)
        )
        return (whole - before) / (last - half) if half else 0.0


def _length(subject: Subject) -> int | None:
    # Return how many batches an epoch has, or None if that isn't certain. In two epochs, main must
    # have seen the sampler deal out as many batches as `len(loader)` says.
    samples = subject.known.samples if subject.known is not None else None
    if samples is None or not is_a(subject.loader, DataLoader):
        return None
    counts = {*chain.from_iterable(samples.dealt)}
    return counts.pop() if len(counts) == 1 else None


def idle_shares(
    waits: Sequence[tuple[float, Collection[int]]], workers: int
) -> tuple[tuple[float, float], ...]:
    """Return for which share of the loop's waiting time each worker was idle.

    Args:
        waits: For each batch, how many seconds the loop waited, and which workers were idle.
        workers: How many workers there are.

    Returns:
        For each worker, its share in the first half of the batches and in the second half.
    """
    half = len(waits) // 2
    shares = []
    for part in (waits[:half], waits[half:]):
        total = sum(seconds for seconds, _ in part) or 1.0
        shares.append(
            [
                sum(seconds for seconds, idle in part if worker in idle) / total
                for worker in range(workers)
            ]
        )
    return tuple(zip(*shares, strict=True))


def cores_of(pid: int) -> set[int]:
    """Return the cores that a process (0 for this one) may use, or an empty set outside Linux."""
    if sys.platform != "linux":
        return set()
    return os.sched_getaffinity(pid)


@dataclasses.dataclass(frozen=True)
class _Kept:
    gone: Callable[[], bool]
    batch: int
    bytes: int


def _gone(reference: weakref.ref[Any]) -> bool:
    return reference() is None


def _large_arrays(batch: Any) -> dict[str, tuple[str, int]]:
    return {
        digest(found.thing): (found.path, found.thing.nbytes)
        for found in walk(batch, named="batch", with_globals=False)
        if is_a(found.thing, np.ndarray) and found.thing.nbytes >= _LARGE
    }


def _arrays(batch: Any) -> list[np.ndarray[Any, Any]]:
    # Instead of a view, return the array that it's a view of.
    found = []
    for _, leaf in leaves(batch):
        if is_a(leaf, np.ndarray):
            while is_a(leaf.base, np.ndarray):
                leaf = leaf.base
            found.append(leaf)
    return found


def _innermost(iterator: Any) -> Any:
    # `counting` wraps each iterator in a new one. A loader with persistent workers reuses only the
    # innermost one.
    while isinstance(iterator, Counted):
        iterator = iterator._iterator
    return iterator


class _Watched(Counted):
    def __init__(self, iterator: Any, watch: Watch, number: int) -> None:
        super().__init__(iterator, lambda batch: watch.deliver(number, batch, self.samples))
        self._watch, self._number = watch, number

    def __next__(self) -> Any:
        self._watch.ask(self._number)
        try:
            batch = super().__next__()
        except StopIteration:
            self._watch.end(self._number)
            raise
        return copy.deepcopy(batch) if self._watch.copies else batch
