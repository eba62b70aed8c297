"""Measure the memory of forked workers from inside, after each batch, when no sample is underway.

After a worker's first 12 batches, a probe measures less often, because measuring takes time. A
probe may also change one thing in the workers, to see how that affects their memory.
"""

from __future__ import annotations

import gc
import mmap
import os
import sys
import time
from array import array
from contextlib import suppress
from typing import Any, Final, Literal

from dltutor.diagnosis.objects import containers
from dltutor.diagnosis.objects.walking import Found
from dltutor.diagnosis.running.changed_batches import Fetch, wrap_fetches
from dltutor.diagnosis.running.notes import Notes
from dltutor.failures.heap_growth import return_freed_memory
from dltutor.system.process_memory import mapped
from dltutor.tables import MB

#: What to change in the workers: "" changes nothing, "frozen" turns off garbage collection,
#: "collected" collects after each batch, "returned" returns large blocks to the operating system,
#: "repeated" makes the first batch again and again, "filled" fills growing containers at batch 2.
Change = Literal["", "frozen", "collected", "returned", "repeated", "filled"]

_FULL: Final = 160.0  # MB; the run ends when a worker has grown by more
_FILLED: Final = 20_000  # elements to add to a container, to see whether it has a bound
_COST: Final = 4  # wait this many times as long as a measurement took before the next one


class Probe:
    """A probe that measures each worker that's forked later. Each worker has its own copy.

    Args:
        change: What to change in the workers.
        large: Containers from `containers.large`, to see which of their pages the workers copy.
        named: Whether to record which containers grow.
    """

    def __init__(
        self,
        change: Change = "",
        large: list[tuple[str, str, int, array[int]]] | None = None,
        *,
        named: bool = False,
    ) -> None:
        self.change = change
        self.large = large or []
        self.named = named
        self._notes = Notes()
        self._full = mmap.mmap(-1, 1)
        self._samples = self._batches = 0
        self._next = 0.0
        self._first: Any = None
        self._sizes: dict[str, tuple[Any, int]] = {}
        self._filled: dict[str, tuple[Any, int]] = {}
        self._full_collections: list[str] = []

    @property
    def full(self) -> bool:
        """Whether a worker has grown so much that the run should end."""
        return self._full[0] != 0

    def read(self) -> list[list[dict[str, Any]]]:
        """Return a list of measurements for each worker, oldest first, with memory in MB."""
        workers: dict[int, list[dict[str, Any]]] = {}
        for note in self._notes.read():
            workers.setdefault(note["pid"], []).append(note)
        return list(workers.values())

    def begin(self, worker: int) -> None:
        """Make the change in this worker, and measure the worker from now on."""
        if self.change == "frozen":
            gc.disable()
        if self.change == "returned":
            return_freed_memory(0)
        gc.callbacks.append(self._collected)
        wrap_fetches(self._fetched)
        self._note()
        self._start = _anonymous()[1]

    def _fetched(self, own: Fetch, fetcher: Any, index: Any) -> Any:
        if self.change == "repeated" and not hasattr(fetcher, "dataset_iter"):
            self._first = index = index if self._first is None else self._first
        data = own(fetcher, index)
        self._batches += 1
        self._samples += len(index) if isinstance(index, (list, tuple)) else 1
        if self.change == "collected":
            gc.collect()
        if self.named:
            self._name(fetcher)
        if self._batches <= 12 or time.monotonic() > self._next:
            self._note()
        return data

    def _note(self) -> None:
        # Record the worker's memory, its collections, and the containers that have grown.
        began = time.monotonic()
        private, anonymous = _anonymous()
        note: dict[str, Any] = {
            "pid": os.getpid(),
            "samples": self._samples,
            "batches": self._batches,
            "private": private,
            "anonymous": anonymous,
            "shares": [containers.own_share(pages) for *_, pages in self.large],
            "collections": len(self._full_collections),
            "collected_at": self._full_collections[-1:],
        }
        if self._batches > 1 and self.named:
            note["grown"] = [
                [path, before, now, containers.bound(thing), type(thing).__name__]
                for path, (thing, before) in self._sizes.items()
                if (now := containers.size(thing) or 0) > before
            ]
            note["filled"] = [
                [path, before, containers.size(thing)]
                for path, (thing, before) in self._filled.items()
            ]
        self._notes.write(note)
        if self._batches and anonymous - self._start > _FULL:
            self._full[0] = 1
        done = time.monotonic()
        self._next = done + _COST * (done - began)

    def _name(self, fetcher: Any) -> None:
        if self._batches == 1:
            roots = [Found("dataset", fetcher.dataset), Found("collate_fn", fetcher.collate_fn)]
            if hasattr(fetcher, "dataset_iter"):
                roots.append(Found("dataset.__iter__", fetcher.dataset_iter))
            for each in containers.reached(roots):
                if (size := containers.size(each.thing)) is not None:
                    self._sizes[each.path] = (each.thing, size)
        if self._batches == 2 and self.change == "filled":
            for path, (thing, before) in self._sizes.items():
                if (containers.size(thing) or 0) > before:
                    with suppress(Exception):
                        _fill(thing)
                        self._filled[path] = (thing, len(thing))

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2 and len(self._full_collections) < 1000:
            frame = sys._getframe(1)
            place = f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"
            self._full_collections.append(place)


def _anonymous() -> tuple[float, float]:
    # Return this worker's private memory in MB, and its anonymous memory, which includes pages that
    # the worker shares with main. Batches in shared memory don't count. Neither do most mapped
    # pages, which are clean.
    sizes = mapped(os.getpid())
    private = sizes["Private_Dirty"] - sizes.get("Pss_Shmem", 0)
    return private / MB, sizes["Anonymous"] / MB


def _fill(thing: Any) -> None:
    # Add many elements, with new keys and a value that the container already holds.
    if isinstance(thing, list):
        thing.extend([thing[-1]] * _FILLED)
        return
    last = next(reversed(list(thing)))
    # The new keys sort before the usual ones, so a cache that evicts its smallest keys evicts these
    # new ones.
    keys: Any = range(-1, -1 - _FILLED, -1)
    if isinstance(last, (str, bytes)):
        keys = [f"-{number}" if isinstance(last, str) else b"-%d" % number for number in keys]
    elif not isinstance(last, int):
        keys = [(number,) for number in keys]
    if isinstance(thing, set):
        thing.update(keys)
        return
    value = thing[last]
    for key in keys:
        thing[key] = value
