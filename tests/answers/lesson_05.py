"""Define right and wrong answers to the exercises of lesson 05."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cells import run_copied
from torch.utils.data import Dataset

from answers import RightAnswers, WrongFixes, at_fork, like, locked
from dltutor.failures.data.sessions import Connection
from dltutor.lessons.lesson_05.helpers import Rows, Windows

Connect = Callable[[], Connection]


def as_tensor(window: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(window), dtype=torch.int16)


def seek_and_read(file: Any, index: int) -> torch.Tensor:
    file.seek(2 * index)
    return as_tensor(file.read(32))


class WithPath(Windows):
    """A base class of answers. Its `__init__` keeps the file's path, but doesn't open the file."""

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


class Memmap(Dataset[torch.Tensor]):
    def __init__(self, path: Path) -> None:
        self.numbers = np.memmap(path, "<i2", "r")

    def __len__(self) -> int:
        return len(self.numbers) - 15

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.numbers[index : index + 16].copy())


class OpensForEach(WithPath):
    def __getitem__(self, index: int) -> torch.Tensor:
        with self.path.open("rb") as file:
            return seek_and_read(file, index)


class Unbuffered(Windows):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: Any = open(path, "rb", buffering=0)  # noqa: SIM115


def open_again(self: Windows) -> None:
    self.file = open(self.file.name, "rb")  # noqa: SIM115


class Lazy(WithPath):
    file: Any = None

    def __getitem__(self, index: int) -> torch.Tensor:
        self.file = self.file or self.path.open("rb")
        return super().__getitem__(index)


class OneForAll(WithPath):
    """Wrong: files are kept in the class, so a second dataset reads the first one's file."""

    opened: dict[int, Any] = {}  # noqa: RUF012

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() not in self.opened:
            self.opened[os.getpid()] = self.path.open("rb")
        return seek_and_read(self.opened[os.getpid()], index)


class ReadWhole(WithPath):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.numbers = torch.from_numpy(np.fromfile(path, "<i2"))

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.numbers[index : index + 16]


class NeverCloses(WithPath):
    def __getitem__(self, index: int) -> torch.Tensor:
        return as_tensor(os.pread(os.open(self.path, os.O_RDONLY), 32, 2 * index))


class KeepsConnect(Rows):
    """A right answer to "05.transfer", which connects once in each process that uses it.

    Other answers are subclasses of it.
    """

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.connections: dict[int, Connection] = {}

    @property
    def connection(self) -> Connection:  # type: ignore[override]
        if os.getpid() not in self.connections:
            self.connections[os.getpid()] = self.connect()
        return self.connections[os.getpid()]


class ConnectsAtFork(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.connect = connect
        os.register_at_fork(after_in_child=self.anew)

    def anew(self) -> None:
        self.connection = self.connect()


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


class AllBefore(Rows):
    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.rows = [self.connection.ask(number) for number in range(self.connection.count())]

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])


class OneConnectionForAll(KeepsConnect):
    """Wrong: connections are kept in the class, so a second dataset asks the first one's server."""

    connections: dict[int, Connection] = {}  # type: ignore[misc]  # noqa: RUF012

    def __init__(self, connect: Connect) -> None:
        self.connect = connect


WINDOWS = """
import torch

class MyWindows(Records):
    def __len__(self):
        return os.path.getsize(self.path) // 2 - 15

    def __getitem__(self, index):
        self.file().seek(2 * index)
        return torch.frombuffer(bytearray(self.file().read(32)), dtype=torch.int16)
"""
ROWS = """
import torch

def open(connect, mode):
    return connect()

class MyRows(Records):
    def __len__(self):
        return self.file().count()

    def __getitem__(self, index):
        return torch.tensor(self.file().ask(index))
"""


RIGHT_ANSWERS: RightAnswers = {
    "05.fix": {
        "os.pread": Positioned,
        "by pid": ByPid,
        "np.memmap": Memmap,
        "opened for each window": OpensForEach,
        "at fork": at_fork(Windows, open_again),
        "the class in On call": run_copied("05", "on-call", WINDOWS)["MyWindows"],
    },
    "05.transfer": {
        "by pid": KeepsConnect,
        "at fork": ConnectsAtFork,
        "the class in On call": run_copied("05", "on-call", ROWS)["MyRows"],
    },
}


# A race decides which of these codes an answer gets.
SHARED = ("moved", "moved-and-wrong", "moved-and-raised")
OVER_MAINS = ("over-mains", "over-mains-and-wrong")

WRONG_FIXES: WrongFixes = {
    "05.fix": {
        "opened on first use": (Lazy, SHARED),
        "one file for all datasets": (OneForAll, "other-sample-of-three"),
        "all in memory": (ReadWhole, "too-much-memory"),
        "never closed": (NeverCloses, "descriptors"),
        "a window for each number": (
            like(Positioned, __len__=lambda self: self.count),
            "other-length",
        ),
        "a lock between processes": (locked(Unbuffered), "moved"),
        "an array": (
            like(
                Memmap, __getitem__=lambda self, index: np.array(self.numbers[index : index + 16])
            ),
            "other-sample",
        ),
    },
    "05.transfer": {
        "connected on first use": (LazyRows, OVER_MAINS),
        "main's closed": (ClosesMainsConnection, "mains-session-ended"),
        "a connection for each row": (ConnectsForEach, "connects-often"),
        "a lock between processes": (locked(Rows), "over-mains"),
        "all rows before": (AllBefore, "other-sample-later"),
        "a list": (
            like(KeepsConnect, __getitem__=lambda self, index: self.connection.ask(index)),
            "other-sample",
        ),
        "one connection for all": (OneConnectionForAll, "other-sample-of-two"),
    },
}
