"""What all tests share: a home of their own, and a proof that nothing is left behind."""

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

import no_address_grammars  # noqa: F401  # before anything imports nbformat
import psutil
import pytest

from dltutor.failures import NAMES
from dltutor.system import processes

# scripts/ is no package: the tests import its modules by name.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

pytest_plugins = ["temporary"]

GRACE = 3
"""Seconds for what is ending to be gone."""

NAMES_GRACE = 15
"""Seconds for names in /dev/shm: the resource tracker of a process that was killed takes its time
on a busy machine."""

MARK = secrets.token_hex(2)
"""In the names that this process, and what multiprocessing starts in it, make in /dev/shm."""


def pytest_configure() -> None:
    # Two workers are too many for a machine of one core, says torch: in kernels, scripts and
    # workers, too, whose output is compared.
    os.environ["PYTHONWARNINGS"] = "ignore:This DataLoader will create:UserWarning"
    # Once for all tests: a fork server that has torch starts workers as quickly as fork does.
    forkserver.set_forkserver_preload([f"dltutor.failures.{name}" for name in NAMES])
    # /dev/shm is everybody's, of the tests that run beside these among others. What a process left
    # that is gone cannot be told by looking, only by its name: multiprocessing hands the prefix of
    # semaphores on to what it starts, and torch's names have the pid of their maker.
    config: Any = multiprocessing.current_process()
    config._config["semprefix"] = f"/mp{MARK}"
    blocks: Any = shared_memory
    blocks._SHM_NAME_PREFIX = f"/psm_{MARK}_"
    _forked.append(os.getpid())
    os.register_at_fork(after_in_child=lambda: _forked.append(os.getpid()))
    # A shell's background job is born with SIGINT ignored; tests that press Stop need it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # Nine thousand tests stay in memory, so no collection has to walk through them again.
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """For a test that compares how much is frozen: an object that is frozen here may still die."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty DLTUTOR_HOME for each test, so that none reads or writes anybody's progress."""
    home = tmp_path / "dltutor-home"
    monkeypatch.setenv("DLTUTOR_HOME", str(home))
    monkeypatch.delenv("DLTUTOR_STRICT", raising=False)
    return home


@dataclass(frozen=True)
class Belongings:
    """What a process holds that outlives a careless call."""

    children: dict[int, str]
    descriptors: dict[int, str]
    shared_memory: frozenset[str]
    threads: dict[int, str]

    @classmethod
    def now(cls) -> Belongings:
        return cls(
            {child.pid: _describe(child) for child in psutil.Process().children(recursive=True)},
            _descriptors(),
            frozenset(_our_shared_memory()),
            {id(thread): thread.name for thread in threading.enumerate()},
        )

    def more_than(self, before: Belongings) -> list[str]:
        """One line for everything that was not there before."""
        lines = [f"process {self.children[pid]}" for pid in self.children.keys() - before.children]
        # A number can be used anew for the same purpose: only their count tells.
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
            return f"{process.name()}, dead, and nobody waited for it"
        return " ".join(process.cmdline())[:120] or process.name()
    except psutil.Error:
        return "that has just ended"


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/dev/fd"):
        try:
            found[int(name)] = os.readlink(f"/dev/fd/{name}")
        except OSError:  # the one that listdir itself had open
            continue
    return found


_CLOCK = 0.1
"""Seconds by which the clock of files is late: it ticks, and this one runs."""


class _Forked:
    """This process and all that descend from it by forks alone, the dead as well.

    A pid comes again: what is older than the last process that had it was not made by that one.
    """

    def __init__(self) -> None:
        self._file, path = tempfile.mkstemp()
        os.unlink(path)
        fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
        self._inode = os.fstat(self._file).st_ino

    def append(self, pid: int) -> None:
        with suppress(OSError):  # it may have closed all that it inherited
            if os.fstat(self._file).st_ino == self._inode:
                os.write(self._file, b"%d %.2f\n" % (pid, time.time()))

    def born(self, pid: int) -> float:
        """When the last process with this pid was forked; infinite for none."""
        lines = os.pread(self._file, os.fstat(self._file).st_size, 0).splitlines()
        births = dict(line.split() for line in lines)
        return float(births.get(b"%d" % pid, b"inf"))


_forked = _Forked()


def _our_shared_memory() -> set[str]:
    """Names in /dev/shm that our family made, or has mapped or open."""
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
    with suppress(OSError):  # gone meanwhile
        found = os.stat(f"/dev/shm/{name}")
        return found.st_dev, found.st_ino
    return None


@pytest.fixture
def nothing_left_behind() -> Iterator[Callable[..., None]]:
    """Fail with what was left, after the test or whenever the test calls it.

    Counted: child processes, open descriptors, names in /dev/shm, threads. Python's own resource
    tracker and fork server stay for good once started, so they are started before the first count.
    """
    resource_tracker.ensure_running()
    forkserver.ensure_running()
    before = Belongings.now()

    def assert_nothing_left(grace: float | None = None) -> None:
        started = time.monotonic()
        while left := Belongings.now().more_than(before):
            only_names = all(line.startswith("/dev/shm/") for line in left)
            longest = grace or (NAMES_GRACE if only_names else GRACE)
            if time.monotonic() > started + longest:
                pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)
            # A test's own `pytest.raises` keeps frames alive in a cycle.
            gc.collect()
            time.sleep(0.02)

    yield assert_nothing_left
    assert_nothing_left()
