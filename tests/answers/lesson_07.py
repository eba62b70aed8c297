"""Define right and wrong answers to the exercises of lesson 07."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.lost_thread import Pairs
from dltutor.failures.tools.handles import PerProcess
from dltutor.lessons.lesson_07.helpers import Clips

Line = tuple[str, int]


class Masked(Pairs):
    """A base class: pairs with an executor that each process makes for itself."""

    def __init__(self, folder: Path) -> None:
        self.images = sorted(folder.glob("*.image"))
        self.masks = [self.find_mask(image) for image in self.images]
        self.executor = PerProcess(partial(ThreadPoolExecutor, max_workers=1))

    @property
    def thread(self) -> Any:  # type: ignore[override]
        return self.executor.get()

    def both(self, index: int, mask: bytes) -> torch.Tensor:
        return torch.tensor([list(self.images[index].read_bytes()), list(mask)])


class ByPid(Masked):
    made_in: int | None = None

    @property
    def thread(self) -> Any:  # type: ignore[override]
        if self.made_in != os.getpid():
            self.kept = ThreadPoolExecutor(max_workers=2)
            self.made_in = os.getpid()
        return self.kept


class Lazy(Masked):
    kept: ThreadPoolExecutor | None = None

    @property
    def thread(self) -> Any:  # type: ignore[override]
        if self.kept is None:
            self.kept = ThreadPoolExecutor(max_workers=1)
        return self.kept


class LeftOutOfThePickle(Pairs):
    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes)
        return torch.tensor([list(self.images[index].read_bytes()), list(mask.result())])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "thread": None}


class WaitsAWhile(Pairs):
    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes)
        image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(mask.result(timeout=0.5))])


class GoesOnWithoutTheMask(Masked, Pairs):
    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            mask = self.lost.submit(self.masks[index].read_bytes).result(timeout=0.02)
        except TimeoutError:
            mask = bytes(5)
        return self.both(index, mask)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lost = ThreadPoolExecutor(max_workers=1)


class OneAfterTheOther(Masked):
    def __getitem__(self, index: int) -> torch.Tensor:
        return self.both(index, self.masks[index].read_bytes())


class OneForEachPair(Masked):
    def __getitem__(self, index: int) -> torch.Tensor:
        with ThreadPoolExecutor(max_workers=1) as thread:
            mask = thread.submit(self.masks[index].read_bytes)
            image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(mask.result())])


class OneKeptForEachPair(Masked):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: list[ThreadPoolExecutor] = []

    @property
    def thread(self) -> Any:  # type: ignore[override]
        self.kept.append(ThreadPoolExecutor(max_workers=1))
        return self.kept[-1]


class Processes(Masked):
    made_in: int | None = None

    @property
    def thread(self) -> Any:  # type: ignore[override]
        if self.made_in != os.getpid():
            self.kept = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
            self.made_in = os.getpid()
        return self.kept


class NeverEnds(Masked):
    """Each process has a thread that waits for work forever."""

    asked: Queue[tuple[Path, Queue[bytes]]]
    made_in: int | None = None

    def work(self) -> None:
        while True:
            path, answer = self.asked.get()
            answer.put(path.read_bytes())

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.made_in != os.getpid():
            self.asked, self.made_in = Queue(), os.getpid()
            # In the tests' own process, the thread mustn't keep the process from exiting.
            daemon = torch.utils.data.get_worker_info() is None
            threading.Thread(target=self.work, daemon=daemon).start()
        answer: Queue[bytes] = Queue()
        self.asked.put((self.masks[index], answer))
        image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(answer.get())])


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, folder: Path) -> None:
        super().__init__(Pairs(folder), batch_size=4, num_workers=0)


class Swaps(Clips):
    """A right answer, and a base class: main's labels are complete at every moment."""

    def refresh(self) -> None:
        self.labels = dict(self.read_labels())

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, self.labels[self.names[index]]


class ForksBetween(Clips):
    """Also right: the fork waits until no thread holds the lock."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        os.register_at_fork(
            before=self.lock.acquire,
            after_in_parent=self.lock.release,
            after_in_child=self.lock.release,
        )


class LocksOfItsOwn(Clips):
    def __getitem__(self, index: int) -> tuple[int, int]:
        if torch.utils.data.get_worker_info():
            self.lock = threading.Lock()
        with self.lock:
            return index, self.labels[self.names[index]]


class MadeAnewAtFork(Clips):
    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        os.register_at_fork(after_in_child=self.make_lock)

    def make_lock(self) -> None:
        self.lock = threading.Lock()

    def __getitem__(self, index: int) -> tuple[int, int]:
        with self.lock:
            return index, self.labels[self.names[index]]


class GoesOnWithoutTheLock(Clips):
    def __getitem__(self, index: int) -> tuple[int, int]:
        got = self.lock.acquire(timeout=0.05)
        label = self.labels[self.names[index]]
        if got:
            self.lock.release()
        return index, label


class NoLock(Clips):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, self.labels[self.names[index]]


class NoLockNoClear(NoLock):
    def refresh(self) -> None:
        for name, label in self.read_labels():
            self.labels[name] = label


class MakesUpALabel(Clips):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, self.labels.get(self.names[index], -1)


class EmptyForAMoment(NoLock):
    def refresh(self) -> None:
        new = dict(self.read_labels())
        with self.lock:
            self.labels.clear()
            self.labels.update(new)


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


class Caches(Swaps):
    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        self.cached: dict[int, tuple[int, int]] = {}

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self.cached.setdefault(index, super().__getitem__(index))


class SharedDict(Swaps):
    """Workers ask another process for each label, so labels change during the epoch."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        self.shared = multiprocessing.get_context("fork").Manager().dict()
        super().__init__(read_labels)

    def refresh(self) -> None:
        super().refresh()
        self.shared["all"] = self.labels

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, self.shared["all"][self.names[index]]


class ReadsAtFork(Clips):
    """Right: each child gets a new lock, and reads the labels itself."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        os.register_at_fork(after_in_child=self.begin_anew)

    def begin_anew(self) -> None:
        self.lock = threading.Lock()
        self.refresh()


def delivers(change: Callable[[int, int], Any]) -> type:
    """Make the right class, but pass each sample through `change`."""

    class Delivers(Swaps):
        def __getitem__(self, index: int) -> Any:
            return change(*super().__getitem__(index))

    return Delivers


class NeverRefreshes(Swaps):
    def refresh(self) -> None:
        if not hasattr(self, "names"):
            self.labels = dict(self.read_labels())


class ReadsForEachSample(Swaps):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, dict(self.read_labels())[self.names[index]]


class NoRefresh:
    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        self.labels = list(read_labels())

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, self.labels[index][1]


class ClipsWithoutWorkers(DataLoader[Any]):
    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(Swaps(read_labels), batch_size=2, num_workers=0)


class InThreads(Masked):
    """Reads both files in parallel, with an event loop in each process."""

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


class NewThreadAtFork(Pairs):
    """Has the executor of `Pairs`, and makes a new one in the child right after each fork."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.register_at_fork(after_in_child=self.make_thread)

    def make_thread(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1)


class PoolByPid(Masked):
    """Uses `multiprocessing.pool.ThreadPool` instead of an executor."""

    made_in: int | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.made_in != os.getpid():
            self.pool, self.made_in = ThreadPool(1), os.getpid()
        mask = self.pool.apply_async(self.masks[index].read_bytes)
        image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(mask.get())])


class BothInThreads(ByPid):
    """Reads both files with `map` and numpy."""

    def __getitem__(self, index: int) -> torch.Tensor:
        files = (str(self.images[index]), str(self.masks[index]))
        both = list(self.thread.map(lambda file: np.fromfile(file, np.uint8), files))
        return torch.as_tensor(np.stack(both)).long()


class ReadsInTheWorker(Clips):
    """Right: each worker makes its own lock and reads the labels once."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        self.pid = os.getpid()

    def __getitem__(self, index: int) -> tuple[int, int]:
        if self.pid != os.getpid():
            self.pid, self.lock, self.labels = os.getpid(), threading.Lock(), {}
            self.refresh()
        return super().__getitem__(index)


class LocksThePlacing(Clips):
    """Holds the lock only for one assignment, and also makes a new lock in each child."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        super().__init__(read_labels)
        os.register_at_fork(after_in_child=self.make_lock)

    def make_lock(self) -> None:
        self.lock = threading.Lock()

    def refresh(self) -> None:
        labels = dict(self.read_labels())
        with self.lock:
            self.labels = labels


class WaitsAtOnce(Masked):
    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes).result()
        return self.both(index, mask)


class TwoTensors(ByPid):
    def __getitem__(self, index: int) -> Any:
        return tuple(super().__getitem__(index))


class AllInMemory(Masked):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.all = [
            torch.tensor([list(image.read_bytes()), list(mask.read_bytes())])
            for image, mask in zip(self.images, self.masks, strict=True)
        ]

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.all[index]


class ReadsInTurnAfterATimeout(Pairs):
    def __getitem__(self, index: int) -> torch.Tensor:
        waiting = self.thread.submit(self.masks[index].read_bytes)
        image = self.images[index].read_bytes()
        try:
            mask = waiting.result(timeout=0.1)
        except TimeoutError:
            mask = self.masks[index].read_bytes()
        return torch.tensor([list(image), list(mask)])


class ReadByTorch(Masked):
    def __getitem__(self, index: int) -> torch.Tensor:
        files = (str(self.images[index]), str(self.masks[index]))
        both = [torch.from_file(file, size=5, dtype=torch.uint8) for file in files]
        return torch.stack(both).long()


class AThreadForEachFileOfABatch(ByPid):
    """Right, and more than we ask for: reads all files of a batch in parallel."""

    @property
    def thread(self) -> Any:  # type: ignore[override]
        if self.made_in != os.getpid():
            self.kept, self.made_in = ThreadPoolExecutor(max_workers=16), os.getpid()
        return self.kept

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        files = [(self.images[index], self.masks[index]) for index in indices]
        reads = [[self.thread.submit(file.read_bytes) for file in pair] for pair in files]
        return [torch.tensor([list(read.result()) for read in pair]) for pair in reads]


class ReadsInTurn(ByPid):
    """Opens both files at once, but reads the mask after the image."""

    def __getitem__(self, index: int) -> torch.Tensor:
        opening = self.thread.submit(self.masks[index].open, "rb")
        image = self.images[index].read_bytes()
        with opening.result() as mask:
            return torch.tensor([list(image), list(mask.read())])


class AsBytes(ByPid):
    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes)
        both = bytearray(self.images[index].read_bytes() + mask.result())
        return torch.frombuffer(both, dtype=torch.uint8).view(2, -1)


class SharedTensor(Clips):
    """Fills one tensor, which all processes share, line by line."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        self.read_labels = read_labels
        self.names = sorted(dict(read_labels()))
        self.all = torch.zeros(len(self.names), dtype=torch.long).share_memory_()
        self.refresh()

    def refresh(self) -> None:
        for name, label in self.read_labels():
            self.all[self.names.index(name)] = label

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, int(self.all[index])


RIGHT_ANSWERS: RightAnswers = {
    "07.predict": {"the letter": lambda: "b"},
    "07.diagnose": {
        "the letter": lambda: "b",
    },
    "07.fix": {
        "by pid": lambda: ByPid,
        "an event loop": lambda: InThreads,
        "made anew at each fork": lambda: NewThreadAtFork,
        "a ThreadPool by pid": lambda: PoolByPid,
        "both files by map": lambda: BothInThreads,
        "all files of a batch": lambda: AThreadForEachFileOfABatch,
        "opened together, read in turn": lambda: ReadsInTurn,
        "a sample of uint8": lambda: AsBytes,
    },
    "07.transfer": {
        "one assignment": lambda: Swaps,
        "a fork that waits for the lock": lambda: ForksBetween,
        "read once in each worker": lambda: ReadsInTheWorker,
        "a lock for the placing, made anew": lambda: LocksThePlacing,
        "a new lock and labels in each child": lambda: ReadsAtFork,
        "a sample as a tensor": lambda: delivers(lambda *sample: torch.tensor(sample)),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "07.fix": {
        "the starter": (lambda: Pairs, "Not attempted", "starter-class"),
        "waits for each at once": (lambda: WaitsAtOnce, "Not yet", "one-after-the-other"),
    },
    "07.transfer": {"the starter": (lambda: Clips, "Not attempted", "starter-class")},
}

WRONG_FIXES: WrongFixes = {
    "07.predict": {
        "it waits for itself": (lambda: "a", "a"),
        "workers in each other's way": (lambda: "c", "c"),
    },
    "07.diagnose": {
        "where the workers stand": (lambda: "d", "d"),
        "where the executor is made": (lambda: "A", "a"),
        "where the worker uses it": (lambda: "c)", "c"),
    },
    "07.fix": {
        "num_workers=0": (lambda: WithoutWorkers, "a-loader"),
        "made on first use": (lambda: Lazy, "waits-main-started"),
        "__getstate__": (lambda: LeftOutOfThePickle, "waits-main-started"),
        "a timeout": (lambda: WaitsAWhile, "timed-out-main-started"),
        "a timeout and zeros": (lambda: GoesOnWithoutTheMask, "wrong-pairs"),
        "a timeout, and then in turn": (lambda: ReadsInTurnAfterATimeout, "one-after-the-other"),
        "no thread any more": (lambda: OneAfterTheOther, "one-after-the-other"),
        "a thread for each pair": (lambda: OneForEachPair, "more-threads"),
        "a thread for each pair, kept": (lambda: OneKeptForEachPair, "more-threads"),
        "processes": (lambda: Processes, "raised"),
        "all read beforehand": (lambda: AllInMemory, "wrong-pairs"),
        "read by torch": (lambda: ReadByTorch, "opened-none"),
        "a thread that never ends": (lambda: NeverEnds, "never-ends"),
        "a sample of two tensors": (lambda: TwoTensors, "other-sample"),
    },
    "07.transfer": {
        "num_workers=0": (lambda: ClipsWithoutWorkers, "a-loader"),
        "a lock for each sample": (lambda: LocksOfItsOwn, "missing-labels"),
        "a new lock at fork": (lambda: MadeAnewAtFork, "missing-labels"),
        "acquire(timeout=...)": (lambda: GoesOnWithoutTheLock, "missing-labels"),
        "no lock, nothing cleared": (lambda: NoLockNoClear, "mixed-labels"),
        "cleared and filled at once": (lambda: EmptyForAMoment, "missing-labels"),
        "no names for a moment": (lambda: NoNamesForAMoment, "missing-clips"),
        "a lock for one assignment": (lambda: LocksOneAssignment, "waits"),
        "cached": (lambda: Caches, "wrong-in-main"),
        "a dict of another process": (lambda: SharedDict, "mixed-labels"),
        "the label alone": (lambda: delivers(lambda _, label: label), "wrong-in-main"),
        "a made-up label": (lambda: MakesUpALabel, "mixed-labels"),
        "no refresh": (lambda: NeverRefreshes, "wrong-in-main"),
        "read for each sample": (lambda: ReadsForEachSample, "raised"),
        "no refresh method": (lambda: NoRefresh, "no-method"),
        "a shared tensor, line by line": (lambda: SharedTensor, "mixed-labels"),
    },
}
