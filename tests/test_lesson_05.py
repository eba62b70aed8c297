"""Lesson 05: what its judges find in recorded evidence, and what its notebook shows."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from cells import answer_in, source
from torch.utils.data import DataLoader, Dataset, Subset

from dltutor import observe
from dltutor.failures.data.records import LENGTH, SIZE, decode, shared_records
from dltutor.failures.data.sessions import ROWS, Server
from dltutor.failures.tools.contract import load
from dltutor.lessons import lesson_05
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, fault
from dltutor.lessons.lesson_05 import fix, transfer
from dltutor.lessons.lesson_05.delivery import RUNS, Delivered
from dltutor.lessons.lesson_05.material import WIDTH, Database, Rows, Windows, recording
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "05-inherited-handles.ipynb"
FINISHED = Ending("finished", 10)
HUNG = Ending("hung", 10, stood="W0 was at a.py, line 3.")
RAISED = Ending("raised", 10, raised_in_worker="ValueError", error="`ValueError` in a.py.")


# What the judges find in recorded evidence, if no answer of the corpus shows it for sure

RIGHT = tuple(Delivered(workers, FINISHED, 48 * epochs, 48 * epochs) for workers, epochs in RUNS)


def judged(exercise: str, delivered: dict[str, Any], **differs: Any) -> tuple[Outcome, str]:
    """The outcome and the code if the first run, with two workers, differs from a right one."""
    first, *others = RIGHT
    of_first, kind = replace(first, **delivered), fix if exercise == "05.fix" else transfer
    runs = (kind.Epochs(of_first, **differs), *map(kind.Epochs, others))
    result = verdict(lambda: kind.judge(runs))
    return result.outcome, result.code


@pytest.mark.parametrize(
    ("delivered", "differs", "code"),
    [
        ({"run": RAISED, "samples": 0}, {"moved": True}, "moved-and-raised"),
        ({"wrong": 9}, {"moved": True}, "moved-and-wrong"),
        ({"wrong": 9, "others": 4}, {"moved": True}, "moved-and-mixed-up"),
        ({}, {"moved": True}, "moved"),
        ({"wrong": 9, "others": 4}, {}, "mixed-up-windows"),
        ({"run": HUNG}, {}, "hung"),
        ({"run": Ending("worker died", 10, fates="W0 killed by SIGKILL")}, {}, "worker-died"),
        ({"run": RAISED}, {"moved": True, "opened": 5}, "descriptors"),
    ],
)
def test_what_a_race_decides_about_windows_is_judged_by_what_was_seen(
    delivered: dict[str, Any], differs: dict[str, Any], code: str
) -> None:
    assert judged("05.fix", delivered, **differs) == (Outcome.NOT_YET, code)


def test_an_error_that_no_shared_position_explains_is_the_answers_own() -> None:
    assert judged("05.fix", {"run": RAISED}) == (Outcome.ERROR, "raised")


@pytest.mark.parametrize(
    ("delivered", "differs", "code"),
    [
        ({"run": HUNG}, {"over_main": 8}, "over-mains"),
        ({"wrong": 9}, {"over_main": 80}, "over-mains-and-wrong"),
        ({"wrong": 9, "others": 9}, {"over_main": 80}, "over-mains-and-mixed-up"),
        ({}, {"ended": True, "over_main": 1}, "mains-session-ended"),
        ({"wrong": 9, "others": 9}, {}, "mixed-up-rows"),
        ({"run": HUNG}, {}, "hung"),
        ({"in_main": fault("main-raised", index=3, error="`OSError`.")}, {}, "main-raised"),
    ],
)
def test_what_a_race_decides_about_rows_is_judged_by_what_was_seen(
    delivered: dict[str, Any], differs: dict[str, Any], code: str
) -> None:
    assert judged("05.transfer", delivered, **differs) == (Outcome.NOT_YET, code)


def test_the_server_knows_who_speaks_over_which_connection() -> None:
    server = Server(seed=3)
    mine = server.connect()
    assert mine.count() == ROWS
    assert mine.ask(2) == server.row(2) == [2, 17, 25, 29]
    if not (child := os.fork()):
        mine.ask(1)
        mine.close()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(OSError):  # its session is over, for the parent too
        [mine.ask(1) for _ in range(3)]
    mine.close()
    [session] = server.sessions
    assert (session.pid, session.others, session.ended) == (os.getpid(), 2, True)


# What the notebook shows


def test_the_starters_of_the_notebook_are_those_that_the_checks_know() -> None:
    notebook = read(NOTEBOOK)
    for exercise, cell, name in (
        ("05.fix", "fix", "MyWindows"),
        ("05.transfer", "transfer", "MyRows"),
    ):
        known = answer_in(notebook, cell, os=os, torch=torch)
        assert check(exercise, known[name]).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["05.predict", "05.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def taken_home() -> Any:
    """`differs` and `moved`, as the notebook defines them."""
    notebook = read(NOTEBOOK)
    known: dict[str, Any] = {
        "os": os,
        "torch": torch,
        "DataLoader": DataLoader,
        "psutil": psutil,
    }
    exec(source("digest", notebook), known)
    exec(source("differs", notebook), known)
    exec(source("moved", notebook).partition("\nprint(")[0], known)
    return known["differs"], known["moved"], known["digest"]


class Mixed(Dataset[Any]):
    """Samples of many types. A worker gets some of them wrong."""

    def __init__(self, wrong: tuple[int, ...] = ()) -> None:
        self.wrong = wrong
        self.all = torch.arange(1000).reshape(10, 100)

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        there = torch.utils.data.get_worker_info() is not None and index in self.wrong
        view = self.all[index][3:50]
        return {"x": view + there, "path": f"{index}.jpg", "n": np.arange(index), "pair": (1, None)}


@pytest.mark.parametrize("wrong", [(), (0,), (9,), (2, 5)])
@pytest.mark.parametrize("workers", [1, 4])
def test_the_comparison_names_the_samples_that_differ(wrong: tuple[int, ...], workers: int) -> None:
    differs, _, _ = taken_home()
    assert differs(Mixed(wrong), workers) == list(wrong)
    assert differs(Subset(Mixed(wrong), range(9, -1, -1)), workers) == [
        9 - index for index in reversed(wrong)
    ]


def test_a_view_is_compared_without_what_it_is_a_view_of() -> None:
    _, _, digest = taken_home()
    ring = torch.zeros(8, 100)
    before = digest((ring[3], {"x": [ring[3]]}))
    ring[4] = 1
    assert digest((ring[3], {"x": [ring[3]]})) == before
    ring[3] = 1
    assert digest((ring[3], {"x": [ring[3]]})) != before


def test_equal_content_has_one_digest() -> None:
    _, _, digest = taken_home()
    assert digest(Mixed()[3]) == digest(Mixed()[3]) != digest(Mixed()[4])


class ByPosition(Dataset[torch.Tensor]):
    """Records on a fast disk."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        self.file.seek(SIZE * index)
        return decode(self.file.read(SIZE))


class Positioned(ByPosition):
    def __getitem__(self, index: int) -> torch.Tensor:
        return decode(os.pread(self.file.fileno(), SIZE, SIZE * index))


@pytest.mark.skipif(not hasattr(psutil, "LINUX") or not psutil.LINUX, reason="positions of files")
def test_a_moved_position_is_seen_on_a_fast_disk_too() -> None:
    _, moved, _ = taken_home()
    path = shared_records()
    for dataset, names in ((ByPosition(path), {path.name}), (Positioned(path), set())):
        for workers in (1, 2):  # others may write to what this process has open: a log
            assert moved(dataset, workers) & {path.name} == names
        dataset.file.close()


class CountsByPosition(ByPosition):
    """Right: each process has its own file. Main moves its own position to find the length."""

    def __init__(self, path: Path) -> None:
        self.path, self.pid = path, 0

    def __len__(self) -> int:
        self[0]
        return self.file.seek(0, os.SEEK_END) // SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.pid != os.getpid():
            self.pid = os.getpid()
            super().__init__(self.path)
        return super().__getitem__(index)


@pytest.mark.skipif(not hasattr(psutil, "LINUX") or not psutil.LINUX, reason="positions of files")
def test_a_position_that_main_moves_for_the_length_is_no_alarm() -> None:
    _, moved, _ = taken_home()
    path = shared_records()
    dataset = CountsByPosition(path)
    assert dataset[0].shape
    assert path.name not in moved(dataset, 2)
    dataset.file.close()


def test_two_workers_over_one_connection_differ_for_certain() -> None:
    differs, _, _ = taken_home()
    rows = Rows(lesson_05.start_server())
    for _ in range(3):
        assert len(differs(rows, 2)) > 10
    rows.connection.close()


def test_the_class_for_who_is_on_call_is_a_fix() -> None:
    [text] = [cell.source for cell in read(NOTEBOOK).cells if cell.id == "on-call"]
    lines = text.partition("```python\n")[2].partition("```")[0]
    known: dict[str, Any] = {"Dataset": Dataset, "os": os, "open": lambda path, _: slowly(path)}
    exec(lines, known)

    class Read(known["Records"]):  # type: ignore[misc]
        def __len__(self) -> int:
            return LENGTH

        def __getitem__(self, index: int) -> torch.Tensor:
            file = self.file()
            file.seek(SIZE * index)
            return decode(file.read(SIZE))

    dataset = Read(shared_records())
    assert dataset[3][0] == 3
    assert lesson_05.told(load(dataset, 2, "fork")) == "finished: right samples"
    assert set(dataset.opened) == {os.getpid()}


def slowly(path: Path) -> Any:
    return lesson_05.open_slowly(path)


def test_the_table_of_handles_says_who_mixes_up_and_who_does_not() -> None:
    shown = dict(lesson_05.handles().rows)
    wrong = [name for name, how in shown.items() if how == "finished: wrong samples"]
    assert wrong == [
        "open file: seek, read",
        "tarfile",
        "socket",
        "sqlite3, in an open transaction",
    ]
    assert [name for name, how in shown.items() if how.startswith("raised")] == ["zipfile"]


@pytest.mark.parametrize("in_transaction", [False, True])
def test_an_open_transaction_shows_a_worker_old_rows_and_new_ones(in_transaction: bool) -> None:
    database = Database(in_transaction)
    got = observe(load(database, 1, "fork", prefetch_factor=1), consume=database.count_old).result
    assert (0 < got.value < 380) is in_transaction  # type: ignore[union-attr,attr-defined]


def test_the_windows_of_the_short_recording_differ() -> None:
    windows = Windows(recording())
    assert len(windows) == 1_000_000 - WIDTH + 1
    assert windows[0].shape == windows[len(windows) - 1].shape == (WIDTH,)
    assert not torch.equal(windows[0], windows[1])
    windows.file.close()


def test_a_plain_socket_gets_past_spawn() -> None:
    from multiprocessing import context
    from multiprocessing.reduction import ForkingPickler

    class Starting:
        def duplicate_for_child(self, descriptor: int) -> int:
            return descriptor

        DupFd = duplicate_for_child

    context.set_spawning_popen(Starting())  # type: ignore[arg-type]
    try:
        with socket.socket() as one:
            assert ForkingPickler.dumps(one)
    finally:
        context.set_spawning_popen(None)
