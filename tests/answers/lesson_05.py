"""The usual wrong answers to the exercises of lesson 05."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import threading
from collections.abc import Callable
from functools import cache, partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.sessions import Connection
from dltutor.failures.tools.handles import PerProcess
from dltutor.lessons.lesson_05.material import Rows, Windows, recording

FORK = multiprocessing.get_context("fork")
Connect = Callable[[], Connection]


def as_tensor(window: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(window), dtype=torch.int16)


def seek_and_read(file: Any, index: int) -> torch.Tensor:
    file.seek(2 * index)
    return as_tensor(file.read(32))


class WithPath(Windows):
    """Opens nothing yet. A base for what follows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = os.path.getsize(path) // 2


class Positioned(Windows):
    def __getitem__(self, index: int) -> torch.Tensor:
        return as_tensor(os.pread(self.file.fileno(), 32, 2 * index))


class ByPid(Windows):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path, self.opened = path, {os.getpid(): self.file}

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self.opened:
            self.opened[os.getpid()] = self.path.open("rb")
        return seek_and_read(self.opened[os.getpid()], index)


class ClosesMains(ByPid):
    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self.opened:
            for file in self.opened.values():
                file.close()
            self.opened = {os.getpid(): self.path.open("rb")}
        return seek_and_read(self.opened[os.getpid()], index)


class Memmap(Dataset[torch.Tensor]):
    def __init__(self, path: Path) -> None:
        self.numbers = np.memmap(path, "<i2", "r")

    def __len__(self) -> int:
        return len(self.numbers) - 15

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.numbers[index : index + 16].copy())


class Mapped(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            self.bytes = mmap(file.fileno(), 0, access=ACCESS_READ)

    def __getitem__(self, index: int) -> torch.Tensor:
        return as_tensor(self.bytes[2 * index : 2 * index + 32])


class FromFile(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.numbers = torch.from_file(str(path), size=self.count, dtype=torch.int16)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.numbers[index : index + 16].clone()


class OpensForEach(WithPath):
    def __getitem__(self, index: int) -> torch.Tensor:
        with self.path.open("rb") as file:
            return seek_and_read(file, index)


class FromFileWithOffset(WithPath):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.fromfile(self.path, "<i2", 16, offset=2 * index))


class LockBetweenProcesses(Windows):
    """All samples are right, and workers wait for each other: the position is shared still."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: Any = open(path, "rb", buffering=0)  # noqa: SIM115
        self.lock: Any = FORK.Lock()

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.lock:
            return super().__getitem__(index)


class LockAroundABuffer(Windows):
    """Wrong where a window begins in the buffer and ends behind it: others moved the position."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.lock: Any = FORK.Lock()

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.lock:
            return super().__getitem__(index)


class LockedBesides(LockBetweenProcesses):
    """The lock is a file's, opened for each window."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return seek_and_read(self.file, index)


class AtFork(Windows):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path
        os.register_at_fork(after_in_child=self.open)

    def open(self) -> None:
        self.file = open(self.path, "rb")  # noqa: SIM115


class ByWorker(Windows):
    """Right: a worker never has another one's id."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path, self.mine = path, None

    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info() and self.mine is None:
            self.mine = self.path.open("rb")
        return seek_and_read(self.mine or self.file, index)


class Kept(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.opened = PerProcess(partial(open, path, "rb"))

    def __getitem__(self, index: int) -> torch.Tensor:
        return seek_and_read(self.opened.get(), index)


class AnotherDescription(Windows):
    """Right on Linux: opened by its descriptor's name, it is another open file."""

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(f"/proc/self/fd/{self.file.fileno()}", "rb") as file:
            return seek_and_read(file, index)


@cache
def opened(pid: int, path: Path) -> Any:
    return path.open("rb")


class CachedByPid(WithPath):
    def __getitem__(self, index: int) -> torch.Tensor:
        return seek_and_read(opened(os.getpid(), self.path), index)


class Lazy(WithPath):
    file: Any = None

    def __getitem__(self, index: int) -> torch.Tensor:
        self.file = self.file or self.path.open("rb")
        return super().__getitem__(index)


class LeftOutOfThePickle(Windows):
    def __len__(self) -> int:
        return self.count - 15

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "file": None}


class Duplicated(Windows):
    def __getitem__(self, index: int) -> torch.Tensor:
        with os.fdopen(os.dup(self.file.fileno()), "rb") as file:
            return seek_and_read(file, index)


class ThreadLock(LockBetweenProcesses):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.lock = threading.Lock()


class FileLock(LockBetweenProcesses):
    """flock locks the open file of the kernel, which all of them have."""

    def __getitem__(self, index: int) -> torch.Tensor:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        sample = seek_and_read(self.file, index)
        fcntl.flock(self.file, fcntl.LOCK_UN)
        return sample


class Unbuffered(Windows):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: Any = open(path, "rb", buffering=0)  # noqa: SIM115


class LowLevel(Windows):
    def __getitem__(self, index: int) -> torch.Tensor:
        os.lseek(self.file.fileno(), 2 * index, os.SEEK_SET)
        return as_tensor(os.read(self.file.fileno(), 32))


class PutsItBack(Windows):
    def __getitem__(self, index: int) -> torch.Tensor:
        before = self.file.tell()
        sample = super().__getitem__(index)
        self.file.seek(before)
        return sample


class PutsItBackUnbuffered(PutsItBack):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: Any = open(path, "rb", buffering=0)  # noqa: SIM115


class EndsTheEpoch(Positioned):
    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            raise StopIteration
        return super().__getitem__(index)


class PatchesTheLoader(Windows):
    """Nobody shares a position where there are no workers."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        without_workers()


def without_workers() -> None:
    init = DataLoader.__init__

    def patched(self: Any, *arguments: Any, **options: Any) -> None:
        options.update(num_workers=0, persistent_workers=False, multiprocessing_context=None)
        init(self, *arguments, **options)

    DataLoader.__init__ = patched  # type: ignore[method-assign]


class LeaksInWorkers(Positioned):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            os.open(self.path, os.O_RDONLY)
        return super().__getitem__(index)


class ReadsTwice(Windows):
    """Until it gets the same twice."""

    def __getitem__(self, index: int) -> torch.Tensor:
        one = seek_and_read(self.file, index)
        for _ in range(5):
            if torch.equal(one, two := seek_and_read(self.file, index)):
                break
            one = two
        return one


class OneForAll(WithPath):
    """By process id, in the class: the second dataset reads the first one's file."""

    opened: dict[int, Any] = {}  # noqa: RUF012

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self.opened:
            self.opened[os.getpid()] = self.path.open("rb")
        return seek_and_read(self.opened[os.getpid()], index)


class LastPath(Windows):
    """The path in the class: what is made last is read by all."""

    last: Path

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        type(self).last = path

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.last.open("rb") as file:
            return seek_and_read(file, index)


class ReadWhole(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.numbers = torch.from_numpy(np.fromfile(path, "<i2"))

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.numbers[index : index + 16]


class NeverCloses(WithPath):
    def __getitem__(self, index: int) -> torch.Tensor:
        return as_tensor(os.pread(os.open(self.path, os.O_RDONLY), 32, 2 * index))


class AFileForEachOfMany(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.files = [path.open("rb") for _ in range(8)]

    def __getitem__(self, index: int) -> torch.Tensor:
        return as_tensor(os.pread(self.files[index % 8].fileno(), 32, 2 * index))


class AnIndexBeside(Positioned):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        path.with_suffix(".index").write_text(str(self.count))


class WritesToIt(Positioned):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("r+b") as file:
            first = file.read(2)
            file.seek(0)
            file.write(first)


class OneTooFew(Positioned):
    def __len__(self) -> int:
        return self.count - 16


class AllNumbers(Positioned):
    def __len__(self) -> int:
        return self.count


class AsFloats(Positioned):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).float()


class Shorter(Positioned):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index)[:8]


class ZerosInstead(Windows):
    """Hides what is raised, and not what is wrong."""

    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            return super().__getitem__(index)
        except ValueError:
            return torch.zeros(16, dtype=torch.int16)


class WithFourWorkers(Positioned):
    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        if info and info.num_workers > 2:
            return seek_and_read(self.file, index)
        return super().__getitem__(index)


class TwoFiles(Windows):
    """One for even workers and one for odd ones: enough for two."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.files = [path.open("rb") for _ in range(2)]

    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        return seek_and_read(self.files[info.id % 2] if info else self.file, index)


class ByWorkersNumber(WithPath):
    """Main has the number of the first worker, which inherits main's file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.files: dict[int, Any] = {}

    def opened(self, number: int) -> Any:
        return self.path.open("rb")

    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        number = info.id if info else 0
        if number not in self.files:
            self.files[number] = self.opened(number)
        return seek_and_read(self.files[number], index)


class ByWorkersNumberUnbuffered(ByWorkersNumber):
    def opened(self, number: int) -> Any:
        return self.path.open("rb", buffering=0)


class MainsIsTheLastWorkers(ByWorkersNumber):
    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        number = info.id if info else 1
        if number not in self.files:
            self.files[number] = self.opened(number)
        return seek_and_read(self.files[number], index)


class FiveInMain(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.files = [path.open("rb") for _ in range(5)]

    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        return seek_and_read(self.files[info.id if info else 0], index)


class NoTensor(Memmap):
    def __getitem__(self, index: int) -> Any:
        return np.array(self.numbers[index : index + 16])


class AsMappedView(WithPath):
    """Right: the tensor is a part of the memory map."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.memmap(self.path, "<i2", "c"))[index : index + 16]


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, path: Path) -> None:
        super().__init__(Windows(path), batch_size=4, num_workers=0)


class KeepsConnect(Rows):
    """The right answer. A base for what follows."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.connections: dict[int, Connection] = {}

    @property
    def connection(self) -> Connection:  # type: ignore[override]
        if os.getpid() not in self.connections:
            self.connections[os.getpid()] = self.connect()
        return self.connections[os.getpid()]


class ComparesPids(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.connect, self.made_in = connect, os.getpid()

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.made_in != os.getpid():
            self.mains = self.connection
            self.connection, self.made_in = self.connect(), os.getpid()
        return super().__getitem__(index)


class DropsMains(ComparesPids):
    """Right here: no goodbye is said when a connection is only dropped."""

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = super().__getitem__(index)
        self.mains = None
        return sample


class ConnectsAtFork(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.connect = connect
        os.register_at_fork(after_in_child=self.anew)

    def anew(self) -> None:
        self.connection = self.connect()


class CountsFirst(KeepsConnect):
    """Main counts over a connection that it closes."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        connection = connect()
        self.rows = connection.count()
        connection.close()

    def __len__(self) -> int:
        return self.rows


class KeptRows(Rows):
    def __init__(self, connect: Connect) -> None:
        self.kept = PerProcess(connect)

    @property
    def connection(self) -> Connection:  # type: ignore[override]
        return self.kept.get()


class ByWorkerId(Rows):
    mine: Connection | None = None

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.connect = connect

    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            self.mine = self.mine or self.connect()
        return torch.tensor((self.mine or self.connection).ask(index))


class CachedConnections(Rows):
    def __init__(self, connect: Connect) -> None:
        self.connect_of = cache(lambda pid: connect())

    @property
    def connection(self) -> Connection:  # type: ignore[override]
        return self.connect_of(os.getpid())


class ConnectsForEachInMain(KeepsConnect):
    """Right: only a worker is asked to connect once."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            return super().__getitem__(index)
        connection = self.connect()
        row = connection.ask(index)
        connection.close()
        return torch.tensor(row)


class LazyRows(Rows):
    connection: Any = None

    def __init__(self, connect: Connect) -> None:
        self.connect = connect

    def __len__(self) -> int:
        return self.own().count()

    def own(self) -> Connection:
        self.connection = self.connection or self.connect()
        return self.connection  # type: ignore[no-any-return]

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.own().ask(index))


class ThreadLocal(Rows):
    def __init__(self, connect: Connect) -> None:
        self.connect, self.local = connect, threading.local()

    @property
    def connection(self) -> Connection:  # type: ignore[override]
        if not hasattr(self.local, "connection"):
            self.local.connection = self.connect()
        return self.local.connection  # type: ignore[no-any-return]


class ClosesMainsConnection(KeepsConnect):
    @property
    def connection(self) -> Connection:  # type: ignore[override]
        if os.getpid() not in self.connections:
            for connection in self.connections.values():
                connection.close()
            self.connections = {os.getpid(): self.connect()}
        return self.connections[os.getpid()]


class ConnectsForEach(KeepsConnect):
    def __getitem__(self, index: int) -> torch.Tensor:
        connection = self.connect()
        row = connection.ask(index)
        connection.close()
        return torch.tensor(row)


class ConnectsForEachAndKeeps(KeepsConnect):
    def __getitem__(self, index: int) -> torch.Tensor:
        self.kept = [*getattr(self, "kept", []), self.connect()]
        return torch.tensor(self.kept[-1].ask(index))


class LockedRows(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.lock: Any = FORK.Lock()

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.lock:
            return super().__getitem__(index)


class ThreadLockedRows(LockedRows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.lock = threading.Lock()


class AsksUntilItIsRight(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        for _ in range(20):
            row = self.connection.ask(index)
            if row[0] == index:
                break
        return torch.tensor(row)


class AllBefore(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.rows = [self.connection.ask(number) for number in range(self.connection.count())]

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])


class MainsRows(KeepsConnect):
    """What main has read, each worker has too."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.rows: dict[int, torch.Tensor] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        if index not in self.rows:
            self.rows[index] = super().__getitem__(index)
        return self.rows[index]


class CountsOverMains(KeepsConnect):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.first = connect()

    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index % self.first.count())


class DuplicatedSocket(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        connection = Connection.__new__(Connection)
        connection.socket = self.connection.socket.dup()
        return torch.tensor(connection.ask(index))


class LeavesWhenDone(KeepsConnect):
    """Says goodbye for every connection it knows at its last row."""

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = super().__getitem__(index)
        if index == 39 and get_worker_info():
            for connection in self.connections.values():
                connection.close()
        return sample


class NeighborsRow(KeepsConnect):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index - 1 if index else 39)


class NoTensorOfRows(KeepsConnect):
    def __getitem__(self, index: int) -> Any:
        return self.connection.ask(index)


class OneConnectionForAll(KeepsConnect):
    """By process id, in the class: the second dataset asks the first one's server."""

    connections: dict[int, Connection] = {}  # type: ignore[misc]  # noqa: RUF012

    def __init__(self, connect: Connect) -> None:
        self.connect = connect


class RowsAsFloats(KeepsConnect):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).float()


class NoRowsWithFour(KeepsConnect):
    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        if info and info.num_workers > 2:
            return torch.tensor([index, 0, 0, 0])
        return super().__getitem__(index)


class Swallows(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            return super().__getitem__(index)
        except Exception:
            return torch.zeros(4, dtype=torch.int64)


class EndsTheEpochOfRows(KeepsConnect):
    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            raise StopIteration
        return super().__getitem__(index)


class PatchesTheLoaderOfRows(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        without_workers()


class RowsWithoutWorkers(DataLoader[Any]):
    def __init__(self, connect: Connect) -> None:
        super().__init__(Rows(connect), batch_size=4, num_workers=0)


RIGHT_ANSWERS: RightAnswers = {
    "05.predict": {"the letter": lambda: "c"},
    "05.diagnose": {"the letter": lambda: "b", "in capitals": lambda: "B"},
    "05.fix": {
        "os.pread": lambda: Positioned,
        "by pid": lambda: ByPid,
        "by pid, main's closed": lambda: ClosesMains,
        "np.memmap": lambda: Memmap,
        "mmap": lambda: Mapped,
        "torch.from_file": lambda: FromFile,
        "opened for each window": lambda: OpensForEach,
        "np.fromfile with an offset": lambda: FromFileWithOffset,
        "at fork": lambda: AtFork,
        "one more in each worker": lambda: ByWorker,
        "a handle for each process": lambda: Kept,
        "opened again by its name": lambda: AnotherDescription,
        "a cache by pid": lambda: CachedByPid,
        "a view of a memory map": lambda: AsMappedView,
    },
    "05.transfer": {
        "by pid": lambda: KeepsConnect,
        "pids compared": lambda: ComparesPids,
        "main's dropped": lambda: DropsMains,
        "at fork": lambda: ConnectsAtFork,
        "counted over another": lambda: CountsFirst,
        "a handle for each process": lambda: KeptRows,
        "one more in each worker": lambda: ByWorkerId,
        "a cache by pid": lambda: CachedConnections,
        "one for each row in main": lambda: ConnectsForEachInMain,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "05.fix": {
        "the starter": (lambda: Windows, "Not attempted", "starter-class"),
        "the starter, by another name": (
            lambda: type("MyWindows", (Dataset,), dict(vars(Windows))),
            "Not attempted",
            "starter-class",
        ),
        "nothing": (lambda: ..., "Not attempted", "no-class"),
        "an object": (lambda: Memmap(recording()), "Error in your code", "an-object"),
    },
    "05.transfer": {
        "the starter": (lambda: Rows, "Not attempted", "starter-class"),
        "nothing": (lambda: None, "Not attempted", "no-class"),
    },
}

# A race decides which.
SHARED = ("moved", "moved-and-wrong", "moved-and-mixed-up", "moved-and-raised")
OVER_MAINS = ("over-mains", "over-mains-and-wrong", "over-mains-and-mixed-up")

WRONG_FIXES: WrongFixes = {
    "05.predict": {
        "objects of their own": (lambda: "a", "a"),
        "an error": (lambda: "b", "b"),
        "no option": (lambda: "d", "no-option"),
    },
    "05.diagnose": {
        "where it is made": (lambda: "a", "a"),
        "where the loader is made": (lambda: "C", "c"),
        "where the workers start": (lambda: "(d)", "d"),
        "a number": (lambda: 2, "no-option"),
    },
    "05.fix": {
        "opened on first use": (lambda: Lazy, SHARED),
        "a lock between threads": (lambda: ThreadLock, SHARED),
        "num_workers=0": (lambda: WithoutWorkers, "a-loader"),
        "left out of the pickle": (lambda: LeftOutOfThePickle, SHARED),
        "duplicated": (lambda: Duplicated, SHARED),
        "flock": (lambda: FileLock, SHARED),
        "no buffer": (lambda: Unbuffered, SHARED),
        "os.lseek and os.read": (lambda: LowLevel, SHARED),
        "put back": (lambda: PutsItBack, SHARED),
        "read until it is the same": (lambda: ReadsTwice, SHARED),
        "zeros where it raises": (lambda: ZerosInstead, SHARED),
        "one file for all datasets": (
            lambda: OneForAll,
            "other-sample-of-three",
        ),
        "the last path for all datasets": (
            lambda: LastPath,
            "other-sample-of-three",
        ),
        "all in memory": (lambda: ReadWhole, "too-much-memory"),
        "never closed": (lambda: NeverCloses, "descriptors"),
        "eight files": (lambda: AFileForEachOfMany, "descriptors"),
        "an index beside it": (lambda: AnIndexBeside, "folder-changed"),
        "written to": (lambda: WritesToIt, "folder-changed"),
        "one window too few": (lambda: OneTooFew, "other-length"),
        "a window for each number": (lambda: AllNumbers, "other-length"),
        "floats": (lambda: AsFloats, "other-sample"),
        "eight numbers": (lambda: Shorter, "other-sample"),
        "right with two workers": (lambda: WithFourWorkers, SHARED),
        "a file of main's for every other worker": (lambda: TwoFiles, SHARED),
        "by the worker's number": (lambda: ByWorkersNumber, SHARED),
        "by the worker's number, no buffer": (lambda: ByWorkersNumberUnbuffered, SHARED),
        "main's is the last worker's": (lambda: MainsIsTheLastWorkers, SHARED),
        "five files of main's": (lambda: FiveInMain, "descriptors"),
        "a lock between processes": (lambda: LockBetweenProcesses, "moved"),
        "a lock around a buffer": (lambda: LockAroundABuffer, SHARED),
        "a lock on a file": (lambda: LockedBesides, SHARED),
        "put back, no buffer": (lambda: PutsItBackUnbuffered, SHARED),
        "descriptors lost in workers": (lambda: LeaksInWorkers, "descriptors"),
        "the epoch ends": (lambda: EndsTheEpoch, "missing"),
        "a loader without workers": (lambda: PatchesTheLoader, "other-loader"),
        "an array": (lambda: NoTensor, "other-sample"),
    },
    "05.transfer": {
        "connected on first use": (lambda: LazyRows, OVER_MAINS),
        "main's closed": (lambda: ClosesMainsConnection, "mains-session-ended"),
        "num_workers=0": (lambda: RowsWithoutWorkers, "a-loader"),
        "a connection for each thread": (lambda: ThreadLocal, OVER_MAINS),
        "a connection for each row": (lambda: ConnectsForEach, "connects-often"),
        "one for each row, kept": (lambda: ConnectsForEachAndKeeps, "connects-often"),
        "a lock between processes": (lambda: LockedRows, "over-mains"),
        "a lock between threads": (lambda: ThreadLockedRows, OVER_MAINS),
        "asked until it is right": (lambda: AsksUntilItIsRight, OVER_MAINS),
        "all rows before": (lambda: AllBefore, "other-sample-later"),
        "rows that main has kept": (lambda: MainsRows, "other-sample-later"),
        "counted over main's": (lambda: CountsOverMains, OVER_MAINS),
        "a duplicated socket": (lambda: DuplicatedSocket, OVER_MAINS),
        "goodbye for all": (lambda: LeavesWhenDone, "mains-session-ended"),
        "the row before": (lambda: NeighborsRow, "other-sample"),
        "floats": (lambda: RowsAsFloats, "other-sample"),
        "a list": (lambda: NoTensorOfRows, "other-sample"),
        "one connection for all": (lambda: OneConnectionForAll, "other-sample-of-two"),
        "the epoch ends": (lambda: EndsTheEpochOfRows, "missing"),
        "a loader without workers": (
            lambda: PatchesTheLoaderOfRows,
            "other-loader",
        ),
        "made up with four workers": (lambda: NoRowsWithFour, "wrong-rows"),
        "zeros where it raises": (lambda: Swallows, OVER_MAINS),
    },
}
