"""Set up the test run, with fixtures that isolate a test or check that it leaves nothing behind."""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import re
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker, shared_memory
from pathlib import Path
from typing import Any

import no_address_grammars  # noqa: F401  # must run before any import of nbformat
import psutil
import pytest
from fresh_interpreter import PATHS
from own_process import descriptors

from dltutor.failures import NAMES
from dltutor.system import processes

sys.path[:0] = [path for path in PATHS if path not in sys.path]

pytest_plugins = ["temporary"]

GRACE = 3
"""Seconds to wait until a test's processes and threads end and its descriptors are closed."""

NAMES_GRACE = 15
"""Seconds to wait for names in /dev/shm to go away. If a process was killed, its resource tracker
may need that long on a busy machine."""

MARK = secrets.token_hex(2)
"""A random string that this process puts into the names that multiprocessing makes in /dev/shm."""


def pytest_configure() -> None:
    # On a machine with one core, torch warns that two workers are too many. An environment variable
    # turns the warning off even in notebooks, scripts, and workers whose output a test compares.
    os.environ["PYTHONWARNINGS"] = "ignore:This DataLoader will create:UserWarning"
    # With the failure modes preloaded, and torch with them, the fork server starts workers quickly.
    forkserver.set_forkserver_preload([f"dltutor.failures.{name}" for name in NAMES])
    # Tests that run in parallel share /dev/shm, and once the process that made a file has ended,
    # only the file's name shows which process that was. So put MARK into multiprocessing's names.
    # Children inherit the prefix for semaphores. torch's names already contain the maker's pid.
    config: Any = multiprocessing.current_process()
    config._config["semprefix"] = f"/mp{MARK}"
    blocks: Any = shared_memory
    blocks._SHM_NAME_PREFIX = f"/psm_{MARK}_"
    _forked.append(os.getpid())
    os.register_at_fork(after_in_child=lambda: _forked.append(os.getpid()))
    # A shell starts background jobs with SIGINT ignored, but the tests of interrupts need SIGINT.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # garbage collection would take seconds while pytest collects the tests


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Freeze all objects before each module's tests, so that garbage collections skip them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """Unfreeze all objects for a test that counts frozen objects, and then freeze them again."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own DLTUTOR_HOME, so that it can't change the user's progress.

    The fixture also unsets DLTUTOR_STRICT. It returns the folder, which doesn't exist yet.
    """
    home = tmp_path / "dltutor-home"
    monkeypatch.setenv("DLTUTOR_HOME", str(home))
    monkeypatch.delenv("DLTUTOR_STRICT", raising=False)
    return home


@pytest.fixture
def short_folder(
    nothing_left_behind: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Make a folder for the test's temporary files, with a path that is short enough for sockets.

    Programs that the test starts use the folder, too. multiprocessing in this process doesn't,
    because it keeps the folder that it chose when `nothing_left_behind` started the fork server.
    """
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


@dataclass(frozen=True)
class Belongings:
    """The descendants, descriptors, /dev/shm names, and threads of this process at one moment."""

    children: dict[int, str]
    descriptors: dict[int, str]
    shared_memory: frozenset[str]
    threads: dict[int, str]

    @classmethod
    def now(cls) -> Belongings:
        return cls(
            {child.pid: _describe(child) for child in psutil.Process().children(recursive=True)},
            descriptors(),
            frozenset(_our_shared_memory()),
            {id(thread): thread.name for thread in threading.enumerate()},
        )

    def more_than(self, before: Belongings) -> list[str]:
        """Return one line for each resource that `self` has and `before` doesn't have.

        Leave out new descriptors if the number of descriptors hasn't grown.
        """
        lines = [f"process {self.children[pid]}" for pid in self.children.keys() - before.children]
        # A call may close one descriptor and open another, so only a larger count shows a leak.
        if len(self.descriptors) > len(before.descriptors):
            new = self.descriptors.keys() - before.descriptors
            lines += [f"descriptor {fd} -> {self.descriptors[fd]}" for fd in sorted(new)]
        segments = self.shared_memory - before.shared_memory
        lines += [f"/dev/shm/{name}" for name in sorted(segments)]
        lines += [f"thread {self.threads[key]}" for key in self.threads.keys() - before.threads]
        return lines


def _describe(process: psutil.Process) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return f"{process.name()}, a zombie that its parent hasn't waited for"
        return " ".join(process.cmdline())[:120] or process.name()
    except psutil.Error:
        return "that has just exited"


_CLOCK = 0.1
"""Seconds by which a file's time may lag, because Linux takes the time from its last clock tick."""


class _Forked:
    """A record of this process and its forked descendants, including those that have ended.

    Linux reuses pids, so the record has the time of each fork. If a file has a pid in its name, but
    is older than our last process with this pid, our process didn't make the file.
    """

    def __init__(self) -> None:
        self._file, path = tempfile.mkstemp()
        os.unlink(path)
        fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
        self._inode = os.fstat(self._file).st_ino

    def append(self, pid: int) -> None:
        with suppress(OSError):  # the process may have closed all inherited descriptors
            if os.fstat(self._file).st_ino == self._inode:
                os.write(self._file, b"%d %.2f\n" % (pid, time.time()))

    def born(self, pid: int) -> float:
        """Return when the last process with this pid was forked, or infinity if none was."""
        lines = os.pread(self._file, os.fstat(self._file).st_size, 0).splitlines()
        births = dict(line.split() for line in lines)
        return float(births.get(b"%d" % pid, b"inf"))


_forked = _Forked()


def _our_shared_memory() -> set[str]:
    """Return the names in /dev/shm that this process or a descendant made, mapped, or opened."""
    names = processes.segments()
    ours = {name for name in names if _is_ours(name)}
    if others := names - ours:
        family = {os.getpid(), *processes.descendants(os.getpid())}
        used = set().union(*map(processes.files_of, family))
        ours |= {name for name in others if _file(name) in used}
    return ours


def _is_ours(name: str) -> bool:
    maker = re.match(r"torch_(\d+)_", name)
    if not maker:
        return MARK in name
    with suppress(OSError):
        return os.stat(f"/dev/shm/{name}").st_mtime > _forked.born(int(maker[1])) - _CLOCK
    return False


def _file(name: str) -> tuple[int, int] | None:
    with suppress(OSError):  # the file may be gone by now
        found = os.stat(f"/dev/shm/{name}")
        return found.st_dev, found.st_ino
    return None


@pytest.fixture
def nothing_left_behind() -> Iterator[Callable[..., None]]:
    """Yield a function that fails the test if anything was left behind, and call it after the test.

    The function looks for descendants, open descriptors, /dev/shm names, and threads that weren't
    there before the test. Python's resource tracker and fork server run until this process exits,
    so the fixture starts both before the test.

    The function waits up to `grace` seconds for everything to go away. The default is NAMES_GRACE
    if only names in /dev/shm are left, and GRACE otherwise.
    """
    resource_tracker.ensure_running()
    forkserver.ensure_running()
    before = Belongings.now()

    def assert_nothing_left(grace: float | None = None) -> None:
        started = time.monotonic()
        wait = 0.02
        while left := Belongings.now().more_than(before):
            only_names = all(line.startswith("/dev/shm/") for line in left)
            longest = grace or (NAMES_GRACE if only_names else GRACE)
            if time.monotonic() > started + longest:
                pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)
            time.sleep(wait)
            if wait > 0.1:
                # Collect the reference cycles in which `pytest.raises` keeps frames alive.
                gc.collect()
            wait = min(2 * wait, 0.5)

    yield assert_nothing_left
    assert_nothing_left()
