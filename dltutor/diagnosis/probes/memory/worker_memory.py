"""Measure the memory of forked workers from inside, after each batch, when no sample is underway.

After a worker's first 12 batches, a probe measures less often, because that takes time. A probe may
also change one thing in the workers, to see how that affects their memory.
"""

from __future__ import annotations

import fcntl
import gc
import json
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
    """A probe that measures the workers forked after it was made.

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
        self._notes = os.memfd_create("dltutor-probe")
        fcntl.fcntl(self._notes, fcntl.F_SETFL, os.O_APPEND)
        self._full = mmap.mmap(-1, 1)

    @property
    def full(self) -> bool:
        """Whether a worker has grown so much that the run should end."""
        return self._full[0] != 0

    def begin(self, worker: int) -> None:
        _Inside(self)

    def read(self) -> list[list[dict[str, Any]]]:
        """Return a list of measurements for each worker, oldest first, and close the probe's file.

        A measurement is a dict from `_Inside.note`, with memory in MB.
        """
        text = os.pread(self._notes, os.fstat(self._notes).st_size, 0).decode()
        workers: dict[int, list[dict[str, Any]]] = {}
        for line in text.splitlines():
            note = json.loads(line)
            workers.setdefault(note["pid"], []).append(note)
        os.close(self._notes)
        return list(workers.values())


class _Inside:
    """The part of a probe that runs in one worker."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.samples = self.batches = 0
        self.next = 0.0
        self.first: Any = None
        self.sizes: dict[str, tuple[Any, int]] = {}
        self.filled: dict[str, tuple[Any, int]] = {}
        self.full_collections: list[str] = []
        if probe.change == "frozen":
            gc.disable()
        if probe.change == "returned":
            return_freed_memory(0)
        gc.callbacks.append(self._collected)
        wrap_fetches(self._fetched)
        self.note()
        self.start = _anonymous()[1]

    def _fetched(self, own: Fetch, fetcher: Any, index: Any) -> Any:
        if self.probe.change == "repeated" and not hasattr(fetcher, "dataset_iter"):
            self.first = index = index if self.first is None else self.first
        data = own(fetcher, index)
        self.batches += 1
        self.samples += len(index) if isinstance(index, (list, tuple)) else 1
        if self.probe.change == "collected":
            gc.collect()
        if self.probe.named:
            self._name(fetcher)
        if self.batches <= 12 or time.monotonic() > self.next:
            self.note()
        return data

    def note(self) -> None:
        """Record the worker's memory, its collections, and the containers that have grown."""
        began = time.monotonic()
        private, anonymous = _anonymous()
        note: dict[str, Any] = {
            "pid": os.getpid(),
            "samples": self.samples,
            "batches": self.batches,
            "private": private,
            "anonymous": anonymous,
            "shares": [containers.own_share(pages) for *_, pages in self.probe.large],
            "collections": len(self.full_collections),
            "collected_at": self.full_collections[-1:],
        }
        if self.batches > 1 and self.probe.named:
            note["grown"] = [
                [path, before, now, containers.bound(thing), type(thing).__name__]
                for path, (thing, before) in self.sizes.items()
                if (now := containers.size(thing) or 0) > before
            ]
            note["filled"] = [
                [path, before, containers.size(thing)]
                for path, (thing, before) in self.filled.items()
            ]
        os.write(self.probe._notes, (json.dumps(note) + "\n").encode())
        if self.batches and anonymous - self.start > _FULL:
            self.probe._full[0] = 1
        done = time.monotonic()
        self.next = done + _COST * (done - began)

    def _name(self, fetcher: Any) -> None:
        if self.batches == 1:
            roots = [Found("dataset", fetcher.dataset), Found("collate_fn", fetcher.collate_fn)]
            if hasattr(fetcher, "dataset_iter"):
                roots.append(Found("dataset.__iter__", fetcher.dataset_iter))
            for each in containers.reached(roots):
                if (size := containers.size(each.thing)) is not None:
                    self.sizes[each.path] = (each.thing, size)
        if self.batches == 2 and self.probe.change == "filled":
            for path, (thing, before) in self.sizes.items():
                if (containers.size(thing) or 0) > before:
                    with suppress(Exception):
                        _fill(thing)
                        self.filled[path] = (thing, len(thing))

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2 and len(self.full_collections) < 1000:
            frame = sys._getframe(1)
            place = f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"
            self.full_collections.append(place)


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
    # The new keys sort before the usual ones, so a cache that evicts its smallest keys evicts them.
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
