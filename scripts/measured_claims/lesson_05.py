"""Lesson 05: inherited handles."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import lazy_but_touched, shared_connection, shared_file_offset
from dltutor.failures.data.records import LENGTH, SIZE, shared_records
from dltutor.failures.tools.contract import Case, load
from dltutor.lessons.lesson_05.material import Database
from dltutor.observation import Observation, observe
from measured_claims import EXITING, NOT_STARTING, CannotMeasure, Claim, Measured, Source

_H5PY: Final = Source(
    "pytorch#11929, HDF5 files in a DataLoader",
    "",
    "https://github.com/pytorch/pytorch/issues/11929",
)
_LMDB: Final = Source("the documentation of LMDB: not after `fork()`")
_SQLITE: Final = Source(
    "How To Corrupt An SQLite Database File", "", "https://www.sqlite.org/howtocorrupt.html"
)
_REDIS: Final = Source(
    "redis-py#790, answers that belong to another request",
    "",
    "https://github.com/redis/redis-py/issues/790",
)
_PSYCOPG: Final = Source(
    "psycopg's documentation, Concurrent operations",
    "",
    "https://www.psycopg.org/psycopg3/docs/advanced/async.html",
)
_ADVICE: Final = Source("common advice")
_MANY: Final = 4000


class _Gets(Dataset[int]):
    """Sample i is what `get(i)` returns; it should be i."""

    def __init__(self, get: Callable[[int], int], length: int = _MANY) -> None:
        self.get, self.length = get, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return self.get(index)


def _wrong(loader: DataLoader[Any]) -> int:
    got = [int(each) for batch in loader for each in batch]
    return sum(each != index for index, each in enumerate(got))


def _run(get: Callable[[int], int], length: int = _MANY, deadline: float = 30) -> Observation:
    return observe(load(_Gets(get, length), 2, "fork"), consume=_wrong, deadline=deadline)


def _told(seen: Observation) -> str:
    if seen.end != "finished":
        return seen.raised_in_worker or seen.end
    if seen.result == 0:
        return "none wrong"
    return f"about {seen.result} wrong" if isinstance(seen.result, int) else str(seen.result)


def _of_case(case: Case) -> Any:
    return observe(case.loader, consume=case.consume)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise CannotMeasure(f"{name} is not installed.") from None


def _needs(*commands: str) -> None:
    for command in commands:
        if not shutil.which(command):
            raise CannotMeasure(f"{command} is not installed.")


def _deadlock() -> Measured:
    ends = {
        "file": _of_case(shared_file_offset.broken()),
        "tar archive": _of_case(shared_file_offset.broken(kind="tar")),
        "zip archive": _of_case(shared_file_offset.broken(kind="zip")),
        "connection": _of_case(shared_connection.broken()),
    }
    found = {
        name: seen.raised_in_worker or (f"{seen.end}, wrong" if seen.result.value else "right")
        for name, seen in ends.items()
    }
    return Measured(
        "; ".join(f"{name}: {how}" for name, how in found.items()) + ".",
        "refuted for these: none hangs; a zip archive raises, the others deliver wrong samples. "
        "A client that reads ahead may hang: see Redis's protocol over a plain socket."
        if "hung" not in "".join(found.values())
        else "holds for some.",
    )


class _Locked(Dataset[int]):
    """Records of one file, under a lock."""

    def __init__(self, lock: Any) -> None:
        self.file = open(shared_records(), "rb", buffering=0)  # noqa: SIM115
        self.lock = lock

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        with self.lock:
            self.file.seek(index * SIZE)
            time.sleep(0.004)
            return int(np.frombuffer(self.file.read(SIZE), "<i4")[0])


def _synchronized() -> Measured:
    ends = [
        observe(load(_Locked(lock), 2, "fork"), consume=_wrong).result
        for lock in (threading.Lock(), get_context("fork").Lock())
    ]
    return Measured(
        f"Under a lock of `threading`: {'wrong samples' if ends[0] else 'right'}. Under one of "
        f"`multiprocessing`: {'wrong samples' if ends[1] else 'right'}.",
        "holds for a lock between processes, which makes the workers wait for each other; a lock "
        "of `threading` is copied and does nothing."
        if ends[0] and not ends[1]
        else "other than expected.",
    )


def _own_copy() -> Measured:
    dataset = _Locked(get_context("fork").Lock())
    dataset[0]
    before = dataset.file.tell()
    observe(load(dataset, 1, "fork"))
    moved = dataset.file.tell() != before
    where = "moved" if moved else "the same"
    return Measured(
        f"The position of main's file, after a worker has read: {where}.",
        "holds for the Python object; refuted for the position of an open file."
        if moved
        else "holds.",
    )


def _lazily() -> Measured:
    ends = [
        _of_case(lazy_but_touched.broken(touched=touched)).result.value for touched in (False, True)
    ]
    return Measured(
        f"Untouched: {'wrong' if ends[0] else 'right'} samples. After `dataset[0]` in main: "
        f"{'wrong' if ends[1] else 'right'}.",
        "holds only while main has not used the dataset." if ends[1] > ends[0] == 0 else "refuted.",
    )


class _Fast(_Locked):
    def __init__(self) -> None:
        self.file = open(shared_records(), "rb")  # noqa: SIM115

    def __len__(self) -> int:
        return _MANY

    def __getitem__(self, index: int) -> int:
        self.file.seek(index % LENGTH * SIZE)
        return int(np.frombuffer(self.file.read(SIZE), "<i4")[0])


def _by_luck() -> Measured:
    def wrong(loader: DataLoader[Any]) -> int:
        got = [int(each) for batch in loader for each in batch]
        return sum(each != index % LENGTH for index, each in enumerate(got))

    seen = [observe(load(_Fast(), 2, "fork"), consume=wrong).result for _ in range(5)]
    counts = [each for each in seen if isinstance(each, int)]
    return Measured(
        f"Five epochs of {_MANY} records on this disk: from {min(counts)} to {max(counts)} wrong "
        "(differs from run to run).",
        "refuted: an epoch may have few wrong samples, or none."
        if max(counts) < _MANY // 10
        else "holds here.",
    )


def _h5py() -> Measured:
    h5py = _library("h5py")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        numbers = np.repeat(np.arange(_MANY, dtype="i4")[:, None], 256, axis=1)
        layouts: dict[str, dict[str, Any]] = {
            "contiguous": {},
            "chunked": {"chunks": (1, 256)},
            "gzip": {"chunks": (8, 256), "compression": "gzip"},
        }
        for layout, options in layouts.items():
            path = Path(folder) / f"{layout}.h5"
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=numbers, **options)
            for kind, source in (("path", path), ("Python file", path.open("rb"))):
                rows = h5py.File(source, "r")["x"]

                def get(index: int, rows: Any = rows) -> int:
                    row = rows[index]
                    return int(row[0]) if (row == row[0]).all() else -1

                # A Python file is a race on this disk: more often than once.
                ends = [_told(_run(get, deadline=60)) for _ in range(1 if kind == "path" else 4)]
                found[kind, layout] = all(each == "none wrong" for each in ends)
    by_path = [right for (kind, _), right in found.items() if kind == "path"]
    by_file = [right for (kind, _), right in found.items() if kind != "path"]
    return Measured(
        f"h5py {h5py.__version__} with HDF5 {h5py.version.hdf5_version}, {_MANY} rows in each of "
        f"three layouts: `h5py.File(path)` {'none wrong' if all(by_path) else 'some wrong'}; "
        "`h5py.File(open(path, 'rb'))` "
        f"{'none wrong' if all(by_file) else 'wrong rows, or an error'}.",
        "refuted for a file that is opened by its path and only read; holds for one that Python "
        "has opened."
        if all(by_path) and not all(by_file)
        else "other than expected.",
    )


def _lmdb() -> Measured:
    lmdb = _library("lmdb")
    ends = {}
    for lock in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            with lmdb.open(folder, map_size=1 << 26) as writer, writer.begin(write=True) as write:
                for index in range(_MANY):
                    write.put(b"%d" % index, struct.pack("<i", index))
            environment = lmdb.open(folder, readonly=True, lock=lock)

            def get(index: int, environment: Any = environment) -> int:
                with environment.begin() as read:
                    return int(struct.unpack("<i", read.get(b"%d" % index))[0])

            ends[lock] = _told(_run(get))
    return Measured(
        f"lmdb {lmdb.__version__}, `readonly=True`, a transaction for each sample: as it is, "
        f"{ends[True]}; with `lock=False`, {ends[False]}.",
        "holds for the default; with `lock=False` and nobody who writes, right under fork."
        if ends == {True: "ReadersFullError", False: "none wrong"}
        else "other than expected.",
    )


def _sqlite() -> Measured:
    old = {}
    for in_transaction in (False, True):
        database = Database(in_transaction)
        loader = load(database, 2, "fork", prefetch_factor=1)
        result: Any = observe(loader, consume=database.count_old).result
        old[in_transaction] = result.value
    return Measured(
        "All rows are written anew during the epoch. Old ones that come long afterwards: "
        f"{'none' if not old[False] else 'some'} where main had no transaction open, "
        f"{'some, among new ones' if old[True] else 'none'} where it had one.",
        "holds where main has a transaction open at the fork: old and new rows are mixed in "
        "silence. A connection that only reads and is idle was right here."
        if old[True] and not old[False]
        else "other than expected.",
    )


@contextmanager
def _redis_server() -> Iterator[str]:
    _needs("redis-server")
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", address, "--save", ""]
        server = subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(address):
                time.sleep(0.05)
            yield address
        finally:
            server.kill()
            server.wait()


def _redis() -> Measured:
    redis = _library("redis")
    with _redis_server() as address:
        connect = partial(redis.Redis, unix_socket_path=address)
        client = connect()
        for index in range(_MANY):
            client.set(index, index)
        pool = _told(_run(lambda index: int(client.get(index))))
        single = connect(single_connection_client=True)
        single.get(1)
        seen = _run(lambda index: int(single.get(index)), deadline=20)
        plain = socket.socket(socket.AF_UNIX)
        plain.connect(address)
        answers = plain.makefile("rb")

        def get(index: int) -> int:
            plain.sendall(b"GET %d\r\n" % index)
            length = int(answers.readline()[1:])
            return int(answers.read(length + 2))

        spoken = _run(get, deadline=10)
    raw = "wrong, or a hang" if spoken.end != "finished" or spoken.result else "right"
    bad = "about half wrong" if seen.end == "finished" and seen.result else _told(seen)
    return Measured(
        f"redis-py {redis.__version__}, {_MANY} keys: a client of the default pool, {pool}; one "
        f"with `single_connection_client=True`, {bad}; its protocol over a plain socket, {raw}.",
        "refuted for redis-py's pool, which looks at the process id; holds for a single connection "
        "and for clients that do not look."
        if pool == "none wrong" and bad != "none wrong"
        else "other than expected.",
    )


@contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    _needs("postgres", "initdb", "pg_ctl")
    as_other = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder:
        if as_other:
            shutil.chown(folder, "postgres")
        pg_ctl = [*as_other, "pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "check": True, "cwd": "/"}
        initdb = [*as_other, "initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "postgres"]
        subprocess.run(initdb, **quiet)
        subprocess.run([*pg_ctl, "-o", f"-k {folder} -h ''", "start"], **quiet)
        try:
            yield {"host": folder, "user": "postgres", "dbname": "postgres"}
        finally:
            subprocess.run([*pg_ctl, "-m", "immediate", "stop"], **quiet)


def _psycopg() -> Measured:
    psycopg = _library("psycopg")
    with _postgres() as address:
        connect = partial(psycopg.connect, **address, autocommit=True)
        with connect() as first:
            first.execute("CREATE TABLE rows (number int PRIMARY KEY)")
            first.execute("INSERT INTO rows SELECT generate_series(0, 3999)")
        question = "SELECT number FROM rows WHERE number = %s"

        def shared(**options: Any) -> str:
            connection = connect(**options)
            ask = lambda index: connection.execute(question, (index,)).fetchone()[0]  # noqa: E731
            seen = _run(ask, deadline=20)
            return "right" if (seen.end, seen.result) == ("finished", 0) else _ended(seen)

        prepared, plain = shared(), shared(prepare_threshold=None)
        mains, own = connect(), dict[int, Any]()

        def closes(index: int) -> int:
            if os.getpid() not in own:
                mains.close()
                own[os.getpid()] = connect()
            return int(own[os.getpid()].execute(question, (index,)).fetchone()[0])

        _run(closes, 40)
        try:
            mains.execute("SELECT 1")
            after = "lives"
        except psycopg.OperationalError:
            after = "is ended"
    return Measured(
        f"psycopg {psycopg.__version__}: 2 workers over main's connection, {prepared}; without "
        f"prepared statements, {plain}. Workers that close main's connection and make their own: "
        f"main's session {after}.",
        "holds; and an inherited connection must not be closed either."
        if "right" not in (prepared, plain) and after == "is ended"
        else "other than expected.",
    )


def _ended(seen: Observation) -> str:
    return "wrong rows" if seen.end == "finished" else "errors or a hang"


def _sockets() -> Measured:
    results = {}
    for method in ("fork", "spawn"):
        case = shared_connection.broken(start_method=method)
        seen: Any = observe(case.loader, consume=case.consume, deadline=60).result
        results[method] = "wrong" if seen.value else "right"
    return Measured(
        "; ".join(
            f"a plain socket under {method}: {how} samples" for method, how in results.items()
        )
        + ".",
        "refuted for plain sockets, whose descriptor multiprocessing hands on."
        if results["spawn"] == "wrong"
        else "holds.",
    )


CLAIMS: Final = (
    Claim(
        "File handles and connections that workers inherit make the loop hang.",
        NOT_STARTING,
        "Main opens a file, a tar and a zip archive and a connection; 2 forked workers use each.",
        _deadlock,
        120,
    ),
    Claim(
        "Each worker gets its own copy of variables, such as file handles.",
        EXITING,
        "The position of a file that main has open, after an epoch in a forked worker.",
        _own_copy,
    ),
    Claim(
        "A shared file handle needs a mechanism for simultaneous access.",
        EXITING,
        "2 forked workers seek and read in main's file under a lock of each kind.",
        _synchronized,
    ),
    Claim(
        "Open the file lazily, in `__getitem__`, and each worker has its own.",
        _ADVICE,
        "2 forked workers, with and without `dataset[0]` in main before.",
        _lazily,
    ),
    Claim(
        "If one epoch is right, the handle is not shared.",
        _ADVICE,
        "2 forked workers seek and read in main's file on this disk, without slow motion.",
        _by_luck,
        120,
    ),
    Claim(
        "Never open an HDF5 file in `__init__`: with workers the data is corrupt.",
        _H5PY,
        "2 forked workers read a file that main has opened, by its path and as a Python file.",
        _h5py,
        300,
    ),
    Claim(
        "An lmdb environment may not be used after a fork.",
        _LMDB,
        "2 forked workers read from an environment that main has opened.",
        _lmdb,
        120,
    ),
    Claim(
        "An SQLite connection may not be carried across a fork.",
        _SQLITE,
        "2 forked workers ask over main's connection, while another one writes all rows anew.",
        _sqlite,
        120,
    ),
    Claim(
        "A Redis client that is shared across a fork mixes up answers.",
        _REDIS,
        "2 forked workers ask a local server over main's client.",
        _redis,
        120,
    ),
    Claim(
        "A PostgreSQL connection may not be shared across a fork.",
        _PSYCOPG,
        "2 forked workers ask a local server over main's connection; then they close it.",
        _psycopg,
        180,
    ),
    Claim(
        "Under spawn a dataset that holds a connection is refused.",
        _ADVICE,
        "A dataset with a plain socket, in 2 forked and in 2 spawned workers.",
        _sockets,
        120,
    ),
)
