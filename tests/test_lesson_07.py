"""Lesson 07's checks accept every right way, end at their deadline, and leave nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from answers.lesson_07 import ByPid, ForksBetween, Masked, NoLock, ShutDownInInit, Swaps

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons import Outcome, check
from dltutor.lessons.lesson_07 import fork_hooks
from dltutor.lessons.lesson_07.fork_hooks import hooks_end_here
from dltutor.lessons.lesson_07.label_server import CLIPS, Clips, Server
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "07-the-loop-that-never-starts.ipynb"

NothingLeft = Callable[..., None]


class InThreads(Masked):
    """Another way to read at the same time: an event loop that each process has."""

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

    def __del__(self) -> None:
        for pid, loop in self.loops.items():
            if pid == os.getpid():
                loop.close()


class MadeAnewAtFork(Pairs):
    """The executor of `Pairs`, and another one as soon as a process is forked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.register_at_fork(after_in_child=self.make_thread)

    def make_thread(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1)


class ReadsInTheWorker(Clips):
    """A lock and labels of its own for each process: read once by each worker."""

    def __init__(self, read_labels: Callable[[], Iterator[tuple[str, int]]]) -> None:
        super().__init__(read_labels)
        self.pid = os.getpid()

    def __getitem__(self, index: int) -> tuple[int, int]:
        if self.pid != os.getpid():
            self.pid, self.lock, self.labels = os.getpid(), threading.Lock(), {}
            self.refresh()
        return super().__getitem__(index)


class LocksThePlacing(Clips):
    """The lock is held for one assignment, and made anew in the worker all the same."""

    def __init__(self, read_labels: Callable[[], Iterator[tuple[str, int]]]) -> None:
        super().__init__(read_labels)
        os.register_at_fork(after_in_child=self.make_lock)

    def make_lock(self) -> None:
        self.lock = threading.Lock()

    def refresh(self) -> None:
        labels = dict(self.read_labels())
        with self.lock:
            self.labels = labels


@pytest.mark.parametrize("answer", [Masked, ByPid, InThreads, MadeAnewAtFork])
def test_a_thread_in_each_process_is_correct(answer: type) -> None:
    result = check("07.fix", answer)
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("14 of 14 pairs arrive in 2 epochs")


@pytest.mark.parametrize("answer", [Swaps, ForksBetween, ReadsInTheWorker, LocksThePlacing])
def test_labels_that_are_whole_at_every_fork_are_correct(answer: type) -> None:
    result = check("07.transfer", answer)
    assert result.outcome is Outcome.CORRECT, result


@pytest.mark.parametrize(("exercise", "starter"), [("07.fix", Pairs), ("07.transfer", Clips)])
def test_an_untouched_starter_is_not_attempted(exercise: str, starter: type) -> None:
    assert check(exercise, starter).outcome is Outcome.NOT_ATTEMPTED


def cells() -> dict[str, str]:
    return {cell.id: cell.source for cell in read(NOTEBOOK).cells}


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [("07.fix", "mend", "MyPairs"), ("07.transfer", "transfer", "MyClips")],
)
def test_the_notebooks_starter_is_not_attempted(exercise: str, cell: str, name: str) -> None:
    names: dict[str, Any] = {}
    lines = cells()["setup"].splitlines()
    exec("\n".join(line for line in lines if line.startswith(("import", "from"))), names)
    exec(cells()[cell], names)
    result = check(exercise, names[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["07.predict", "07.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_the_lines_that_the_lesson_names_are_those_of_the_class() -> None:
    lines, first = inspect.getsourcelines(Pairs)
    told = dict(enumerate(lines, first))
    assert "self.thread.map" in told[54] and check("07.diagnose", 54).outcome is Outcome.CORRECT
    assert "submit" in told[63] and "result()" in told[65]
    named = re.findall(r"[Ll]ine (\d+)", "\n".join(cells().values()))
    assert set(named) == {"54", "63", "65"}


def test_an_object_in_place_of_its_class_is_told(tmp_path: Path) -> None:
    result = check("07.fix", Masked(tmp_path))
    assert result.outcome is Outcome.ERROR
    assert "the class itself, `Masked`, not an object of it" in result.text


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [("07.fix", Masked), ("07.fix", ShutDownInInit), ("07.transfer", NoLock)],
)
def test_a_check_leaves_nothing_behind(
    exercise: str, answer: type, nothing_left_behind: NothingLeft
) -> None:
    start = threading.Thread.start
    register = os.register_at_fork
    check(exercise, answer)
    nothing_left_behind()
    assert threading.Thread.start is start
    assert os.register_at_fork is register


def test_hooks_run_in_their_block_and_never_after_it() -> None:
    ran: list[str] = []
    with hooks_end_here():
        os.register_at_fork(before=lambda: ran.append("before"))
        fork_and_wait()
    fork_and_wait()
    assert ran == ["before"]


def test_a_hook_that_holds_up_a_fork_is_ended_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_hooks, "PATIENCE", 0.1)
    lock = threading.Lock()
    with hooks_end_here() as hooks:
        os.register_at_fork(before=lock.acquire)
        fork_and_wait()
        assert not hooks.held_up
        fork_and_wait()  # "Exception ignored in ..." would fail this test
        assert hooks.held_up


def fork_and_wait() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def test_a_correction_changes_every_label() -> None:
    server = Server()
    before = dict(server.read())
    server.version += 1
    after = dict(server.read())
    assert len(before) == CLIPS
    assert all(before[name] != after[name] for name in before)
