"""Provide datasets, their files and server, and a table of handles for notebook 05."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import shared_connection, shared_file_offset
from dltutor.failures.data.records import LENGTH, SIZE, count_wrong, shared_records
from dltutor.failures.data.sessions import Connection, Server
from dltutor.failures.tools.contract import Case, load
from dltutor.failures.tools.handles import own_folder
from dltutor.failures.tools.sign import Finding
from dltutor.observation import observe
from dltutor.tables import Table

WIDTH: Final = 16  # numbers in a window


def told(loader: DataLoader[Any]) -> str:
    """Run an epoch of records in order, and return a string such as "finished: wrong samples".

    If the run didn't finish, the string says how the run ended, with the exception's type, if any.
    """
    return _in_words(Case(loader, count_wrong))


def _in_words(case: Case) -> str:
    seen = observe(case.loader, consume=case.consume)
    if not isinstance(seen.result, Finding):
        return (
            f"{seen.end}: {seen.raised_in_worker or seen.chain[0][0]}" if seen.chain else seen.end
        )
    return f"{seen.end}: {'wrong' if seen.result.value else 'right'} samples"


@cache
def recording() -> Path:
    """Write a file of a million random 16-bit numbers, and return its path."""
    path = own_folder() / "recording.bin"
    np.random.default_rng(5).integers(-30_000, 30_000, 1_000_000, dtype="<i2").tofile(path)
    return path


class Windows(Dataset[torch.Tensor]):
    """The notebook's starter for "05.fix", whose samples are windows of 16 numbers."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "rb")  # noqa: SIM115
        self.count = os.fstat(self.file.fileno()).st_size // 2

    def __len__(self) -> int:
        return self.count - 15

    def __getitem__(self, index: int) -> torch.Tensor:
        self.file.seek(2 * index)
        return torch.frombuffer(bytearray(self.file.read(32)), dtype=torch.int16)


@cache
def start_server() -> Callable[[], Connection]:
    """Start the server that has the rows, and return the function that connects to the server."""
    return Server().connect


class Rows(Dataset[torch.Tensor]):
    """The notebook's starter for "05.transfer", which asks a server for one row at a time."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self.connection = connect()

    def __len__(self) -> int:
        return self.connection.count()

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.connection.ask(index))


class _Mapped(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.records = np.memmap(shared_records(), "<i4", "r").reshape(-1, SIZE // 4)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.records[index].copy())


class Database(Dataset[torch.Tensor]):
    """A dataset of rows from SQLite, over one connection that main opens.

    Args:
        in_transaction: Whether main begins a transaction and counts the rows in it.
    """

    def __init__(self, in_transaction: bool) -> None:
        self.path = own_folder() / "rows.db"
        # The garbage collector can close the connection in any thread, so allow all threads.
        self.connection = sqlite3.connect(self.path, check_same_thread=False)
        execute = self.connection.execute
        execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, version INTEGER, padding BLOB)")
        rows = ((number, 0, bytes(200)) for number in range(20_000))
        self.connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        self.connection.commit()
        if in_transaction:
            execute("BEGIN")
            execute("SELECT count(*) FROM rows").fetchone()

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        # Each index asks for a row on a different page, so that samples don't share a cached page.
        question = "SELECT version FROM rows WHERE number = ?"
        return torch.tensor(self.connection.execute(question, (50 * index,)).fetchone())

    def __del__(self) -> None:
        self.connection.close()

    def renew(self) -> None:
        """End main's transaction, and set `version` from 0 to 1 over another connection."""
        self.connection.rollback()
        with closing(sqlite3.connect(self.path)) as other:
            other.execute("UPDATE rows SET version = 1")
            other.commit()

    def count_old(self, loader: DataLoader[Any]) -> Finding:
        """Run an epoch, renew all rows after the first batch, and count old rows that arrive later.

        Batches that the workers may have prefetched don't count.
        """
        batches = iter(loader)
        next(batches)
        self.renew()
        for _ in range(2 * loader.num_workers):
            next(batches, None)
        return Finding(sum(int((batch == 0).sum()) for batch in batches), "of 400 rows are old")


def handles() -> Table:
    """Show what happens when two forked workers use each of eight kinds of handles from main."""
    cases: dict[str, Callable[[], Case]] = {
        "open file: seek, read": shared_file_offset.broken,
        "tarfile": partial(shared_file_offset.broken, kind="tar"),
        "zipfile": partial(shared_file_offset.broken, kind="zip"),
        "socket": shared_connection.broken,
        "sqlite3, in an open transaction": partial(_database, True),
        "sqlite3": partial(_database, False),
        "open file: os.pread": partial(shared_file_offset.fixed, positioned=True),
        "np.memmap": lambda: Case(load(_Mapped(), 2, "fork"), count_wrong),
    }
    rows = tuple((name, _in_words(make())) for name, make in cases.items())
    return Table("Opened in main, used by two forked workers", rows, ("handle", "how it ended"))


def _database(in_transaction: bool) -> Case:
    database = Database(in_transaction)
    return Case(load(database, 2, "fork", prefetch_factor=1), database.count_old)
