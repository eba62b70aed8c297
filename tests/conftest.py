"""What all tests share: a home of their own, and a proof that nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import no_address_grammars  # noqa: F401  # before anything imports nbformat
import psutil
import pytest
import tiers

from dltutor.failures import NAMES

# scripts/ is no package: the tests import its modules by name.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

pytest_plugins = ["costs", "distribution"]

GRACE = 3
"""Seconds for what is ending to be gone."""

NAMES_GRACE = 15
"""Seconds for names in /dev/shm: it is everybody's, and a test beside this one may just have killed
a process, whose resource tracker then takes its time on a busy machine."""


def pytest_configure() -> None:
    # Once for all tests: a fork server that has torch starts workers as quickly as fork does.
    forkserver.set_forkserver_preload([f"dltutor.failures.{name}" for name in NAMES])
    # A shell's background job is born with SIGINT ignored; tests that press Stop need it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.mark(items)


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
            frozenset(_shared_memory()),
            {id(thread): thread.name for thread in threading.enumerate()},
        )

    def more_than(self, before: Belongings) -> list[str]:
        """One line for everything that was not there before."""
        lines = [f"process {self.children[pid]}" for pid in self.children.keys() - before.children]
        # A number can be used anew for the same purpose: only their count tells.
        if len(self.descriptors) > len(before.descriptors):
            new = self.descriptors.keys() - before.descriptors
            lines += [f"descriptor {fd} -> {self.descriptors[fd]}" for fd in sorted(new)]
        if segments := self.shared_memory - before.shared_memory:
            segments -= _shared_memory_of_others()
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


def _shared_memory() -> set[str]:
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


def _shared_memory_of_others() -> set[str]:
    """Names in /dev/shm that a process outside our own family has mapped or open."""
    me = psutil.Process()
    family = {me.pid, *(child.pid for child in me.children(recursive=True))}
    theirs: set[int] = set()
    for pid in set(psutil.pids()) - family:
        try:
            # A semaphore is mapped under the name that it had first: its inode stays the same.
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            theirs.update(int(line.split()[4]) for line in maps.splitlines() if "/dev/shm/" in line)
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                if os.readlink(descriptor).startswith("/dev/shm/"):
                    theirs.add(descriptor.stat().st_ino)
        except OSError:
            continue
    return {name for name in _shared_memory() if _inode(f"/dev/shm/{name}") in theirs}


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
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
