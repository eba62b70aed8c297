"""Define right and wrong answers to the exercises of lesson 07."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from answers import RightAnswers, WrongFixes, at_fork, delivering, like
from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.lesson_07.helpers import Clips

Line = tuple[str, int]
FORK = multiprocessing.get_context("fork")


class ByPid(Pairs):
    """A right answer to "07.fix", in which each process makes its own executor.

    Other answers are subclasses of it.
    """

    make_executor: Any = staticmethod(partial(ThreadPoolExecutor, max_workers=2))
    made_in: int | None = None

    def __init__(self, folder: Path) -> None:
        self.images = sorted(folder.glob("*.image"))
        self.masks = [self.find_mask(image) for image in self.images]

    @property
    def thread(self) -> Any:  # type: ignore[override]
        if self.made_in != os.getpid():
            self.kept, self.made_in = self.make_executor(), os.getpid()
        return self.kept


class Lazy(ByPid):
    kept: ThreadPoolExecutor | None = None

    @property
    def thread(self) -> Any:  # type: ignore[override]
        if self.kept is None:
            self.kept = ThreadPoolExecutor(max_workers=1)
        return self.kept


class WaitsAWhile(Pairs):
    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes)
        image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(mask.result(timeout=0.5))])


class OneForEachPair(ByPid):
    def __getitem__(self, index: int) -> torch.Tensor:
        with ThreadPoolExecutor(max_workers=1) as thread:
            mask = thread.submit(self.masks[index].read_bytes)
            image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(mask.result())])


class Swaps(Clips):
    """A right answer to "07.transfer", and the base class of other answers.

    Main's labels are always complete, because `refresh` replaces them in one assignment.
    """

    def refresh(self) -> None:
        self.labels = dict(self.read_labels())

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, self.labels[self.names[index]]


class ForksBetween(Clips):
    """Right: main doesn't fork until no other thread holds the lock."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        os.register_at_fork(
            before=self.lock.acquire,
            after_in_parent=self.lock.release,
            after_in_child=self.lock.release,
        )


def make_lock(self: Clips) -> None:
    self.lock = threading.Lock()


def make_lock_and_read(self: Clips) -> None:
    make_lock(self)
    self.refresh()


class NoNamesForAMoment(Swaps):
    def refresh(self) -> None:
        new = dict(self.read_labels())
        self.names = []
        self.names.extend(sorted(new))
        self.labels = new


class LocksOneAssignment(Clips):
    def refresh(self) -> None:
        new = dict(self.read_labels())
        with self.lock:
            self.labels = new


class NeverRefreshes(Swaps):
    def refresh(self) -> None:
        if not hasattr(self, "names"):
            self.labels = dict(self.read_labels())


class ReadsForEachSample(Swaps):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, dict(self.read_labels())[self.names[index]]


class InThreads(ByPid):
    """Right: reads both files in parallel, with an event loop in each process."""

    loops: dict[int, asyncio.AbstractEventLoop]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.loops = {}

    async def read(self, index: int) -> list[bytes]:
        files = (self.images[index], self.masks[index])
        return await asyncio.gather(*(asyncio.to_thread(file.read_bytes) for file in files))

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self.loops:
            self.loops[os.getpid()] = asyncio.new_event_loop()
            pool = ThreadPoolExecutor(max_workers=2)
            self.loops[os.getpid()].set_default_executor(pool)
        both = self.loops[os.getpid()].run_until_complete(self.read(index))
        return torch.tensor([list(each) for each in both])


def make_thread(self: Pairs) -> None:
    self.thread = ThreadPoolExecutor(max_workers=1)


class WaitsAtOnce(ByPid):
    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes).result()
        return torch.tensor([list(self.images[index].read_bytes()), list(mask)])


class AllInMemory(ByPid):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.all = [
            torch.tensor([list(image.read_bytes()), list(mask.read_bytes())])
            for image, mask in zip(self.images, self.masks, strict=True)
        ]

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.all[index]


class Searches(ByPid):
    """A class that looks for each mask by its name, which one of them doesn't have."""

    def __getitem__(self, index: int) -> torch.Tensor:
        name = self.images[index].stem.replace("07", "7")
        next(mask for mask in self.masks if mask.stem == name)
        return super().__getitem__(index)


RIGHT_ANSWERS: RightAnswers = {
    "07.fix": {
        "by pid": ByPid,
        "an event loop": InThreads,
        "made anew at each fork": at_fork(Pairs, make_thread),
        "a sample of uint8": delivering(ByPid, torch.Tensor.byte),
    },
    "07.transfer": {
        "one assignment": Swaps,
        "a fork that waits for the lock": ForksBetween,
        "a new lock and labels in each child": at_fork(Clips, make_lock_and_read),
        "a sample as a tensor": like(
            Swaps, __getitem__=lambda self, index: torch.tensor(Swaps.__getitem__(self, index))
        ),
    },
}


WRONG_FIXES: WrongFixes = {
    "07.fix": {
        "waits for each at once": (WaitsAtOnce, "one-after-the-other"),
        "made on first use": (Lazy, "waits-main-started"),
        "a timeout": (WaitsAWhile, "timed-out-main-started"),
        "a thread for each pair": (OneForEachPair, "more-threads"),
        "processes": (
            like(ByPid, make_executor=staticmethod(partial(ProcessPoolExecutor, 1, FORK))),
            "raised",
        ),
        "all read beforehand": (AllInMemory, "wrong-pairs"),
        "next() of nothing": (Searches, "lost-pairs"),
        "a sample of two tensors": (delivering(ByPid, tuple), "other-sample"),
    },
    "07.transfer": {
        "a new lock at fork": (at_fork(Clips, make_lock), "missing-labels"),
        "no names for a moment": (NoNamesForAMoment, "missing-clips"),
        "a lock for one assignment": (LocksOneAssignment, "waits"),
        "a made-up label": (
            like(
                Clips,
                __getitem__=lambda self, index: (index, self.labels.get(self.names[index], -1)),
            ),
            "mixed-labels",
        ),
        "no refresh": (NeverRefreshes, "wrong-in-main"),
        "read for each sample": (ReadsForEachSample, "raised"),
        "the class of the other exercise": (ByPid, "no-method"),
    },
}
