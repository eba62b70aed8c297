"""One run of the loader on the bench: what came, and what became of it."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from dltutor.diagnosis.bench import Bench, TooSlow
from dltutor.diagnosis.digests import digest, leaves, split
from dltutor.diagnosis.messages import explain
from dltutor.failures.kit.evidence import Run
from dltutor.observation import torch_internals
from dltutor.observation.counting import Counted, count_samples, counting
from dltutor.observation.loaders import inner_loaders
from dltutor.observation.observing import observe
from dltutor.observation.report import Observation
from dltutor.observation.texts import said, tidy
from dltutor.tables import MB

SEEN: Final = 2000  # batches of one iteration whose content is taken
PATIENCE: Final = 6.0  # seconds without a batch, after which a forked worker counts as hanging
STARTING: Final = 14.0  # the same where workers import torch first
_HELD: Final = 4000  # storages that are followed


class _Enough(BaseException):
    """All has been seen that there is time for."""


class Watch:
    """Writes down what a loader delivers, while a loop runs."""

    def __init__(self, bench: Bench, seconds: float, content: bool) -> None:
        self.bench = bench
        self.content = content
        self.until = time.monotonic() + seconds
        self.least = seconds / 2  # seconds from the first batch on: workers may start slowly
        self.passes: list[list[str]] = []
        self.drawn: list[list[str]] = []
        self.counted: list[int] = []
        self.finished: list[bool] = []
        self.restarted = self.resumed = 0
        self.tensors = self.batches = 0
        self.batch_bytes = self.storage_bytes = 0
        self.kept = self.kept_bytes = 0
        self.kept_then: list[tuple[int, int]] = []
        self.gap = 0.0
        self.shared = 0.0
        self.memory: dict[int, list[tuple[float, float]]] = {}
        self.files: list[int] = []
        self.last = time.monotonic()
        self.others = set(multiprocessing.active_children())
        self._memory: dict[int, _Kept] = {}  # of the batches, by address
        self._looked = 0.0
        self._open: list[tuple[weakref.ref[Any], int]] = []  # iterators, each with its pass
        self._displaced: set[int] = set()  # passes whose iterator was begun anew

    def begin(self, iterator: Any) -> Iterator[Any]:
        """Take note of an iteration of the loader."""
        own = _innermost(iterator)
        number = next((number for each, number in self._open if each() is own), None)
        if number is not None and not self.finished[number]:
            self.restarted += 1  # one iterator, begun anew before its end
            self._displaced.add(number)
        self.passes.append([])
        self.drawn.append([])
        self.counted.append(0)
        self.finished.append(False)
        self._open = [(each, number) for each, number in self._open if each() not in (None, own)]
        with suppress(TypeError):  # some have no weak references, and are of one iteration
            self._open.append((weakref.ref(own), len(self.passes) - 1))
        return _Watched(iterator, self, len(self.passes) - 1)

    def deliver(self, number: int, batch: Any) -> None:
        """Write down one batch."""
        now = time.monotonic()
        if self.batches:
            self.gap = max(self.gap, now - self.last)
        else:
            self.until = max(self.until, now + self.least)
        self.batches += 1
        count = count_samples(self.bench.loader, batch)
        self.counted[number] += count
        if self.content and len(self.passes[number]) < SEEN:
            self.passes[number].append(digest(batch))
            self.drawn[number] += split(batch, count) or []
        self._weigh(batch)
        self._look(now)
        self.last = time.monotonic()
        if self.last > self.until:
            raise _Enough

    def ask(self, number: int) -> None:
        """Write down that an iteration is asked for a batch."""
        if number in self._displaced:
            self._displaced.discard(number)
            self.resumed += 1

    def end(self, number: int) -> None:
        """Write down that an iteration came to its end."""
        self.finished[number] = True
        self._look(0)

    def _weigh(self, batch: Any) -> None:
        tensors = [leaf for _, leaf in leaves(batch) if isinstance(leaf, torch.Tensor)]
        self.tensors += len(tensors)
        own, storages = 0, {}
        for each in tensors:
            with suppress(RuntimeError, NotImplementedError):
                storage = each.untyped_storage()
                storages[storage.data_ptr()] = storage
                own += each.nbytes
        size = sum(each.nbytes() for each in storages.values())
        if own > self.batch_bytes:
            self.batch_bytes = own
        self.storage_bytes = max(self.storage_bytes, size)
        # What was delivered three batches ago or earlier, and still is in somebody's hands.
        self._memory = {at: each for at, each in self._memory.items() if not each.gone()}
        old = [each for each in self._memory.values() if each.batch < self.batches - 2]
        self.kept = max(self.kept, len({each.batch for each in old}))
        self.kept_bytes = max(self.kept_bytes, sum(each.bytes for each in old))
        if self.batches & (self.batches - 1) == 0:
            self.kept_then.append((self.batches, self.kept))
        if len(self._memory) < _HELD:
            for at, whole in storages.items():
                kept = _Kept(StorageWeakRef(whole).expired, self.batches, whole.nbytes())
                self._memory.setdefault(at, kept)  # one that all batches share is of the first
            for array in _arrays(batch):
                reference = weakref.ref(array)
                kept = _Kept(partial(_gone, reference), self.batches, array.nbytes)
                self._memory.setdefault(array.ctypes.data, kept)

    def _look(self, now: float) -> None:
        # Reading memory takes a millisecond or two for each worker: not at every batch.
        if now and self.files and now - self._looked < 0.03:
            return
        self._looked = now
        with suppress(OSError):
            self.files.append(len(os.listdir("/proc/self/fd")))
        for process in set(multiprocessing.active_children()) - self.others:
            with suppress(psutil.Error, OSError):
                seen = psutil.Process(process.pid).memory_full_info()
                self.memory.setdefault(process.pid or 0, []).append((seen.uss / MB, seen.rss / MB))


@dataclasses.dataclass(frozen=True)
class _Kept:
    gone: Callable[[], bool]
    batch: int
    bytes: int


def _gone(reference: weakref.ref[Any]) -> bool:
    return reference() is None


def _arrays(batch: Any) -> list[np.ndarray[Any, Any]]:
    # Of a view, the array whose memory it shows.
    found = []
    for _, leaf in leaves(batch):
        if isinstance(leaf, np.ndarray):
            while isinstance(leaf.base, np.ndarray):
                leaf = leaf.base
            found.append(leaf)
    return found


def _innermost(iterator: Any) -> Any:
    # An iteration that is counted has an object of its own; a kept iterator is the one inside.
    while isinstance(iterator, Counted):
        iterator = iterator._iterator
    return iterator


class _Watched(Counted):
    def __init__(self, iterator: Any, watch: Watch, number: int) -> None:
        super().__init__(iterator, lambda batch: watch.deliver(number, batch))
        self._watch, self._number = watch, number

    def __next__(self) -> Any:
        self._watch.ask(self._number)
        try:
            return super().__next__()
        except StopIteration:
            self._watch.end(self._number)
            raise


def run(
    bench: Bench,
    *,
    seconds: float = 4.0,
    patience: float | None = None,
    content: bool = True,
    epochs: int | None = None,
    own_loop: bool = False,
    limit: int | None = None,
) -> Run:
    """Run the loader of a bench.

    Args:
        bench: The loader, and its loop.
        seconds: After them the run is ended at the next batch.
        patience: Seconds that may pass without a batch; default: by the start method. More where
            the samples are known to take long.
        content: Whether to take the digest of what comes.
        epochs: How often; default: as the bench has it.
        own_loop: Whether to iterate plainly, although there is a training loop.
        limit: Batches of an epoch, without a training loop.
    """
    if patience is None:
        patience = PATIENCE if bench.method in ("", "fork") else STARTING
    patience = _patience(bench, patience)
    seconds = max(min(seconds, bench.seconds - 1.5 - patience), min(seconds, 0.5))
    watch = Watch(bench, seconds, content)
    loop = bench.loop
    state: dict[str, Any] = {"result": None, "alive": 0, "enough": False, "told": 0}

    def plainly(loader: Any, epoch: int) -> None:
        _tell(bench, epoch)
        for number, _ in enumerate(loader, start=1):
            if number == limit:
                break

    def whole(loader: Any) -> None:
        with counting(loader, watch.begin), _epochs_counted(bench, state):
            try:
                for epoch in range(epochs or bench.epochs):
                    if epoch and time.monotonic() > watch.until:
                        raise _Enough  # new workers would take longer than there is left
                    if loop is None or own_loop:
                        plainly(loader, epoch)
                    else:
                        state["result"] = loop(loader)
                state["alive"] = _left_alive(bench, watch)
            except _Enough:
                state["enough"] = True

    with _orders(bench) as orders:
        seen = observe(bench.loader, consume=whole, deadline=seconds + patience)
    return _written(seen, watch, state, orders)


def _patience(bench: Bench, patience: float) -> float:
    # A batch may take long because its samples do: then its silence says nothing.
    samples = bench.known.samples if bench.known is not None else None
    if bench.known is None or samples is None or not samples.looked:
        return patience
    count = bench.known.parts.batch_size or 1
    expected = samples.typical * count
    if expected + samples.slowest > max(bench.seconds - 2.0, patience):
        raise TooSlow(
            f"a batch of {count} takes about {expected:.0f} s, which is more than there is for "
            "this; a longer deadline gives it more"
        )
    return max(patience, min(2.5 * expected + samples.slowest, bench.seconds - 2.0))


def _tell(bench: Bench, epoch: int) -> None:
    # As a training loop does.
    for each in (bench.dataset, bench.inner.sampler, bench.inner.batch_sampler):
        if callable(set_epoch := getattr(each, "set_epoch", None)):
            set_epoch(epoch)


@contextmanager
def _epochs_counted(bench: Bench, state: dict[str, Any]) -> Iterator[None]:
    sampler: Any = bench.inner.sampler
    own = getattr(sampler, "set_epoch", None)
    if own is None:
        yield
        return

    def set_epoch(epoch: int) -> None:
        state["told"] += 1
        own(epoch)

    sampler.set_epoch = set_epoch
    try:
        yield
    finally:
        del sampler.set_epoch


@contextmanager
def _orders(bench: Bench) -> Iterator[list[str]]:
    # What the sampler deals out, epoch by epoch: it runs in this process.
    orders: list[str] = []
    with ExitStack() as undo:
        sampler: Any = bench.inner.sampler
        cls = type(sampler)
        if hasattr(sampler, "num_replicas"):
            own = cls.__iter__

            def __iter__(self: Any) -> Any:
                dealt = list(own(self))
                orders.append(digest(dealt))
                return iter(dealt)

            undo.callback(setattr, cls, "__iter__", own)
            cls.__iter__ = __iter__
        yield orders


def _left_alive(bench: Bench, watch: Watch) -> int:
    # Workers that nobody asked to stay: an iterator that somebody holds has them.
    wanted: set[Any] = set()
    for each in inner_loaders(bench.loader).values():
        if each.persistent_workers:
            wanted |= set(torch_internals.workers_of(torch_internals.kept_iterator(each)))
    left = set(multiprocessing.active_children()) - watch.others - wanted
    return sum(type(each).__name__.endswith("Process") and _serves(each) for each in left)


def _serves(process: Any) -> bool:
    target = getattr(process, "_target", None)
    return getattr(target, "__name__", "") == "_worker_loop"


def _written(seen: Observation, watch: Watch, state: dict[str, Any], orders: list[str]) -> Run:
    words = "\n".join([*(f"{kind}: {text}" for kind, text in seen.chain), seen.stderr, *seen.notes])
    kind, text = seen.chain[0] if seen.chain else ("", "")
    error = tidy(said(kind, text)) if seen.chain else ""
    lasts = [figures for figures in watch.memory.values() if len(figures) > 1]
    return Run(
        end="enough" if state["enough"] and seen.end == "finished" else seen.end,
        error=_short(error),
        kind=kind,
        raised=seen.raised_in_worker,
        at=tuple(map(str, reversed(seen.traceback))),
        said=tidy(words)[-4000:],
        named=tuple(match.failure.name for match in explain(words)),
        stood=tuple(tuple(map(str, each.stack)) for each in seen.workers if each.stack),
        codes=tuple(each.exitcode for each in seen.workers),
        batches=watch.batches,
        samples=sum(watch.counted),
        seconds=seen.seconds,
        first=seen.first_batch_seconds,
        gap=watch.gap,
        passes=tuple(map(tuple, watch.passes)),
        drawn=tuple(map(tuple, watch.drawn)),
        counted=tuple(watch.counted),
        finished=tuple(watch.finished),
        restarted=watch.restarted,
        resumed=watch.resumed,
        alive=state["alive"],
        result=digest(state["result"]) if _comparable(state["result"]) else "",
        returned=repr(state["result"])[:80] if _comparable(state["result"]) else "",
        kept=watch.kept,
        kept_bytes=watch.kept_bytes,
        kept_then=tuple(watch.kept_then),
        tensors=watch.tensors / max(watch.batches, 1),
        batch_bytes=watch.batch_bytes,
        storage_bytes=watch.storage_bytes,
        private=tuple((each[0][0], max(uss for uss, _ in each)) for each in lasts),
        resident=tuple((each[0][1], max(rss for _, rss in each)) for each in lasts),
        files=watch.files[-1] - watch.files[0] if watch.files else 0,
        epochs_told=state["told"],
        orders=tuple(orders),
    )


def _comparable(result: object) -> bool:
    plain = type(result).__module__ in ("builtins", "numpy", "torch")
    return result is not None and (plain or dataclasses.is_dataclass(result))


def _short(text: str) -> str:
    first = text.strip().splitlines()
    return first[0][:300] if first else ""
