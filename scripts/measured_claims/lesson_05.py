"""Measure the claims for lesson 05: inherited handles."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader

from dltutor.failures import lazy_but_touched, shared_connection, shared_file_offset
from dltutor.failures.data.records import LENGTH, SIZE, shared_records
from dltutor.failures.tools.contract import Case, load
from dltutor.lessons.lesson_05.helpers import Database
from dltutor.observation import Observation, observe
from measured_claims import CannotMeasure, Facts, library, numbers, observed

_MANY: Final = 4000


def _wrong(loader: DataLoader[Any]) -> int:
    return sum(number != index for index, number in enumerate(numbers(loader)))


def _run(get: Callable[[int], int], length: int = _MANY, deadline: float = 30) -> Observation:
    # Observe a loader whose sample i is `get(i)`, which should be i.
    return observed(get, length, consume=_wrong, deadline=deadline)


def _told(seen: Observation) -> str:
    if seen.end != "finished":
        return seen.raised_in_worker or seen.end
    if seen.result == 0:
        return "none wrong"
    return f"about {seen.result} wrong" if isinstance(seen.result, int) else str(seen.result)


def _of_case(case: Case) -> Any:
    return observe(case.loader, consume=case.consume, deadline=60)


@contextmanager
def _server(ready: Callable[[], bool], *command: str, user: str | None = None) -> Iterator[None]:
    """Start a local server, as this or another user, run the block once it's ready, and stop it.

    Raises:
        CannotMeasure: The server isn't installed, or it ends before it's ready.
    """
    if not shutil.which(command[0]):
        raise CannotMeasure(f"{command[0]} isn't installed.")
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd="/", user=user)
    try:
        while not ready():
            if server.poll() is not None:
                raise CannotMeasure(f"{command[0]} ended with exit code {server.returncode}.")
            time.sleep(0.05)
        yield
    finally:
        server.send_signal(signal.SIGINT)  # PostgreSQL shuts down even if clients are connected
        server.wait()


def deadlock() -> Facts:
    cases = {
        "file": shared_file_offset.broken(),
        "tar archive": shared_file_offset.broken(kind="tar"),
        "zip archive": shared_file_offset.broken(kind="zip"),
        "connection": shared_connection.broken(),
    }
    found = {}
    for name, case in cases.items():
        seen = observe(case.loader, consume=case.consume)
        right = seen.end == "finished" and not seen.result.value  # type: ignore[attr-defined]
        found[name] = seen.raised_in_worker or ("right" if right else f"{seen.end}, wrong")
    return {"found": found, "hangs": "hung" in "".join(found.values())}


def _reader(lock: Any = None, pause: float = 0) -> tuple[Any, Callable[[int], int]]:
    """Open a file of records in main, and return it with a function that reads record i % LENGTH.

    Args:
        lock: A lock to hold while reading a record. If None (the default), there's no lock.
        pause: Seconds between `seek` and `read` (default 0). With a pause, the file is unbuffered.
    """
    file = open(shared_records(), "rb", buffering=0 if pause else -1)  # noqa: SIM115

    def get(index: int) -> int:
        with lock or nullcontext():
            file.seek(index % LENGTH * SIZE)
            if pause:
                time.sleep(pause)
            return int(np.frombuffer(file.read(SIZE), "<i4")[0])

    return file, get


def synchronized() -> Facts:
    threads, processes = (
        _run(_reader(lock, 0.004)[1], LENGTH).result
        for lock in (threading.Lock(), get_context("fork").Lock())
    )
    as_expected = bool(threads) and not processes
    return {"threads": not threads, "processes": not processes, "between processes": as_expected}


def own_copy() -> Facts:
    file, get = _reader(pause=0.004)
    get(0)
    before = file.tell()
    observed(get, LENGTH, 1)
    return {"moved": file.tell() != before}


def lazily() -> Facts:
    untouched, touched = (
        _of_case(lazy_but_touched.broken(touched=touched)).result.value for touched in (False, True)
    )
    return {"untouched": not untouched, "touched": not touched}


def by_luck() -> Facts:
    def wrong(loader: DataLoader[Any]) -> int:
        return sum(number != index % LENGTH for index, number in enumerate(numbers(loader)))

    _, get = _reader()
    seen = [observed(get, _MANY, consume=wrong).result for _ in range(5)]
    counts = [each for each in seen if isinstance(each, int)]
    few = max(counts) < _MANY // 10
    return {"many": _MANY, "least": min(counts), "most": max(counts), "few": few}


def h5py() -> Facts:
    h5py = library("h5py")
    right = {"path": True, "Python file": True}
    with tempfile.TemporaryDirectory() as folder:
        rows_of_a_number = np.repeat(np.arange(_MANY, dtype="i4")[:, None], 256, axis=1)
        layouts: dict[str, dict[str, Any]] = {
            "contiguous": {},
            "chunked": {"chunks": (1, 256)},
            "gzip": {"chunks": (8, 256), "compression": "gzip"},
        }
        for layout, options in layouts.items():
            path = Path(folder) / f"{layout}.h5"
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=rows_of_a_number, **options)
            for kind, source in (("path", path), ("Python file", path.open("rb"))):
                rows = h5py.File(source, "r")["x"]

                def get(index: int, rows: Any = rows) -> int:
                    row = rows[index]
                    return int(row[0]) if (row == row[0]).all() else -1

                # Workers that share a file object race, and may be lucky, so try four times.
                ends = [_told(_run(get, deadline=60)) for _ in range(1 if kind == "path" else 4)]
                right[kind] &= all(each == "none wrong" for each in ends)
    return {
        "h5py": h5py.__version__,
        "hdf5": h5py.version.hdf5_version,
        "many": _MANY,
        "by path": right["path"],
        "by file": right["Python file"],
    }


def lmdb() -> Facts:
    lmdb = library("lmdb")
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
    return {"lmdb": lmdb.__version__, "locked": ends[True], "without": ends[False]}


def sqlite() -> Facts:
    old = []
    for in_transaction in (False, True):
        database = Database(in_transaction)
        loader = load(database, 2, "fork", prefetch_factor=1)
        result: Any = observe(loader, consume=database.count_old).result
        old.append(bool(result.value))
    return {"idle": old[0], "in a transaction": old[1]}


def redis() -> Facts:
    redis = library("redis")
    with ExitStack() as block:
        folder = block.enter_context(tempfile.TemporaryDirectory())
        address = f"{folder}/redis.sock"
        options = ("--port", "0", "--unixsocket", address, "--save", "", "--dir", folder)
        block.enter_context(_server(partial(os.path.exists, address), "redis-server", *options))
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
    single_end = "about half wrong" if seen.end == "finished" and seen.result else _told(seen)
    return {
        "redis": redis.__version__,
        "many": _MANY,
        "pool": pool,
        "single": single_end,
        "plain": spoken.end == "finished" and not spoken.result,
        "single only": pool == "none wrong" != single_end,
    }


def psycopg() -> Facts:
    psycopg = library("psycopg")
    with ExitStack() as block:
        folder = block.enter_context(tempfile.TemporaryDirectory())
        data, user = f"{folder}/data", None
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            user = "postgres"
            shutil.chown(folder, user)
        initdb = ["initdb", "-D", data, "-A", "trust", "-U", "postgres"]
        subprocess.run(initdb, stdout=subprocess.DEVNULL, check=True, cwd="/", user=user)
        state = Path(data, "postmaster.pid")

        def ready() -> bool:
            return state.exists() and "ready" in state.read_text()

        command = ("postgres", "-D", data, "-k", folder, "-h", "")
        block.enter_context(_server(ready, *command, user=user))
        connect = partial(
            psycopg.connect, host=folder, user="postgres", dbname="postgres", autocommit=True
        )
        with connect() as first:
            first.execute("CREATE TABLE rows (number int PRIMARY KEY)")
            first.execute("INSERT INTO rows SELECT generate_series(0, 3999)")
        question = "SELECT number FROM rows WHERE number = %s"

        def shared(**options: Any) -> str:
            connection = connect(**options)
            ask = lambda index: connection.execute(question, (index,)).fetchone()[0]  # noqa: E731
            seen = _run(ask, deadline=20)
            if seen.end != "finished":
                return "errors or a hang"
            return "wrong rows" if seen.result else "right"

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
            lives = True
        except psycopg.OperationalError:
            lives = False
    return {
        "psycopg": psycopg.__version__,
        "prepared": prepared,
        "plain": plain,
        "lives": lives,
        "neither": "right" not in (prepared, plain) and not lives,
    }


def sockets() -> Facts:
    samples = {}
    for method in ("fork", "spawn"):
        wrong = _of_case(shared_connection.broken(start_method=method)).result.value
        samples[method] = "wrong" if wrong else "right"
    return samples
