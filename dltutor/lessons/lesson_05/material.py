"""What notebook 05 shows and uses: a recording, rows of a server, a table of handles."""

from __future__ import annotations

import mmap
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.failures import shared_connection, shared_file_offset
from dltutor.failures.kit.contract import Case, load
from dltutor.failures.kit.handles import own_folder
from dltutor.failures.kit.sign import Finding
from dltutor.failures.material.records import LENGTH, SIZE, count_wrong, shared_records
from dltutor.failures.material.sessions import Connection, Server
from dltutor.observation import observe
from dltutor.tables import Table

WIDTH: Final = 16  # numbers in a window
_START: Final = 5.0  # seconds for all workers to begin
_WAIT: Final = 0.4  # seconds for another process to move a position
_PATIENCE: Final = 4  # waits of a worker in vain
#: Calls in which others may move a position.
_MAY_WAIT: Final = ("acquire", "poll", "select", "sleep", "wait")


def told(loader: DataLoader[Any]) -> str:
    """Run an epoch of records in order, and say in a few words how it ended and what came."""
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
    """A file of a million 16-bit numbers, all different in any place where windows begin."""
    path = own_folder() / "recording.bin"
    np.random.default_rng(5).integers(-30_000, 30_000, 1_000_000, dtype="<i2").tofile(path)
    return path


class Windows(Dataset[torch.Tensor]):
    """The starter of "05.fix": sixteen numbers of a long recording, from number `index` on."""

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
    """Start the server of rows; what is returned makes a connection to it."""
    return Server().connect


class Rows(Dataset[torch.Tensor]):
    """The starter of "05.transfer": rows that a server has, asked for one by one."""

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
    """Rows of SQLite, over one connection. `version` of all rows is 0, then `renew` makes it 1.

    Args:
        in_transaction: Whether main has begun one, and has counted the rows in it.
    """

    def __init__(self, in_transaction: bool) -> None:
        self.path = own_folder() / "rows.db"
        self.connection = sqlite3.connect(self.path)
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
        # A row of another page each time.
        question = "SELECT version FROM rows WHERE number = ?"
        return torch.tensor(self.connection.execute(question, (50 * index,)).fetchone())

    def renew(self) -> None:
        """Main ends its transaction, and somebody else writes all rows."""
        self.connection.rollback()
        with closing(sqlite3.connect(self.path)) as other:
            other.execute("UPDATE rows SET version = 1")
            other.commit()

    def count_old(self, loader: DataLoader[Any]) -> Finding:
        """An epoch; all rows are renewed at its first batch. Those that are old afterwards."""
        batches = iter(loader)
        next(batches)
        self.renew()
        for _ in range(2 * loader.num_workers):  # these may have been read before
            next(batches, None)
        return Finding(sum(int((batch == 0).sum()) for batch in batches), "of 400 rows old")


def handles() -> Table:
    """What becomes of eight kinds of handles that main opened, in two forked workers."""
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
    return Table("Opened in main, used by 2 forked workers", rows, ("handle", "how it ended"))


def _database(in_transaction: bool) -> Case:
    database = Database(in_transaction)
    return Case(load(database, 2, "fork", prefetch_factor=1), database.count_old)


class SlowMotion:
    """Makes a race for a read position certain, in forked workers.

    After each call into C that moved a position that main has too, a worker waits until another
    process has moved it as well. Nothing moves it where a lock or a file of one's own is right:
    after some waits in vain the worker goes on at full speed.

    Args:
        files: The files that this is about.
    """

    def __init__(self, files: list[os.stat_result]) -> None:
        self._files, self._main = files, os.getpid()
        self._held: list[int] = []
        self._shared = mmap.mmap(-1, 64)  # main's turns; whether one moved; which workers run

    def begin(self, workers: int) -> None:
        """Hold what main has open now. It is for workers that are forked from now on."""
        while self._held:
            os.close(self._held.pop())
        for descriptor, stat in _descriptors():
            if any(os.path.samestat(stat, each) for each in self._files):
                self._held.append(os.dup(descriptor))  # the same position
        self._shared[1:] = bytes(63)
        self._workers, self._patience = workers, _PATIENCE
        self._turn, self._before = -1, self._positions()
        sys.setprofile(self._look)

    def end(self) -> bool:
        """End it; whether a worker moved a position of main's."""
        sys.setprofile(None)
        return bool(self._shared[1])

    def main_turns(self) -> None:
        """Main begins to read, or has read."""
        self._shared[0] = (self._shared[0] + 1) % 256

    def opened(self) -> int:
        """How many descriptors of one file this process has, besides those that are held."""
        found = [stat for each, stat in _descriptors() if each not in self._held]
        return max(sum(os.path.samestat(stat, each) for stat in found) for each in self._files)

    def _positions(self) -> list[int]:
        return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in self._held]

    def _look(self, frame: object, event: str, called: Any) -> None:
        worker = get_worker_info()
        if os.getpid() == self._main or worker is None or not self._patience:
            return
        self._shared[2 + worker.id] = 1
        now, turn = self._positions(), self._shared[0]
        if event == "c_call":
            self._before, self._turn = now, turn
        elif event == "c_return" and getattr(called, "__name__", "") not in _MAY_WAIT:
            mine = [i for i, at in enumerate(now) if at != self._before[i]]
            if mine and turn == self._turn and turn % 2 == 0:
                self._shared[1] = 1
                self._wait(_START, lambda: sum(self._shared[2:]) >= self._workers)
                if not self._wait(_WAIT, lambda: any(self._positions()[i] != now[i] for i in mine)):
                    self._patience -= 1

    def _wait(self, seconds: float, until: Callable[[], bool]) -> bool:
        end = time.monotonic() + seconds
        while not (done := until()) and time.monotonic() < end:
            time.sleep(0.0005)
        return done


def _descriptors() -> list[tuple[int, os.stat_result]]:
    found = []
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the one that listed them is closed again
            found.append((descriptor, os.fstat(descriptor)))
    return found
