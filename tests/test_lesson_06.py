"""Lesson 06: what its judges say of recorded evidence, and what its notebook uses."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from dltutor.failures import generator_attribute
from dltutor.failures.main_only_class import Squares
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.engine.sources import only_holds
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.material import MyRecords, Tiles, costs, told
from dltutor.lessons.lesson_06.transfer import CLIPS
from dltutor.lessons.lesson_06.travel import Epoch, import_file, problem_with
from dltutor.observation import observe

FINISHED = Ending("finished", 8)
GOOD = Epoch("with 2 workers under fork", FINISHED)
RAISED = replace(GOOD, run=Ending("raised", 8, kind="TypeError", error="`TypeError: no`."))
DIED = replace(
    GOOD,
    run=Ending("worker died", 8, fates="W0 ended with exit code 1", last_words="RuntimeError: no"),
)

KILLED = replace(GOOD, run=Ending("worker died", 8, fates="W0 killed by SIGKILL (exit code -9)"))
FREED = replace(DIED, run=replace(DIED.run, last_words="RuntimeError: unable to resize file <>"))


# 06.fix


RECORDS = fix.Evidence(60_000, size=200, epochs=(fix.Epoch(GOOD, renamed=True),))


def test_records_that_arrive_everywhere_are_correct() -> None:
    result = verdict(lambda: fix.judge(RECORDS))
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("64 of 64 records of two files arrive with 0, 2 and 4 workers")


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"length": 32}, "The file holds 60000 records, and `len(dataset)` is 32"),
        ({"touched": "`one.bin`"}, "new, gone or no longer the same: `one.bin`. Others read there"),
        (
            {"wrong": 2000},
            "Without workers, 2000 of 4000 records are wrong, read from two datasets",
        ),
        ({"problem": "`TypeError: cannot pickle`. It is in `handle`."}, "It is in `handle`."),
        ({"size": 480_000}, "480000 bytes, for a file of 480000: what is in the file goes to"),
        ({"epochs": (fix.Epoch(GOOD, moved=True),)}, "moved the read position of the file"),
        ({"epochs": (fix.Epoch(RAISED, moved=True),)}, "moved the read position of the file"),
        ({"epochs": (fix.Epoch(RAISED),)}, "under fork, it ends with `TypeError: no`. Which of"),
        ({"epochs": (fix.Epoch(RAISED, renamed=True),)}, "Does it open the file for each record"),
        (
            {"epochs": (fix.Epoch(DIED),)},
            "RuntimeError: no`. Which of what it uses is not there, or",
        ),
        ({"epochs": (fix.Epoch(KILLED),)}, "(exit code -9). What in your class ends a process?"),
        ({"epochs": (fix.Epoch(replace(GOOD, wrong=2)),)}, "under fork, 2 of 64 records are wrong"),
    ],
)
def test_what_is_wrong_with_records_is_told(differs: dict[str, Any], told: str) -> None:
    result = verdict(lambda: fix.judge(replace(RECORDS, **differs)))
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# 06.transfer


RIGHT = transfer.Evidence(CLIPS, epochs=(GOOD,))


def test_clips_that_are_the_same_everywhere_are_correct() -> None:
    result = verdict(lambda: transfer.judge(RIGHT))
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("24 of 24 samples are the task's with 0, 2 and 4 workers")


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"problem": "`TypeError: no`."}, "cannot be pickled: `TypeError: no`."),
        ({"length": 3}, "`len(dataset)` is 3"),
        ({"changed": "the file of clips"}, "changed the file of clips"),
        ({"wrong": (1.5, 2)}, "2 of 24 samples are not the clip with the task's noise"),
        ({"wrong": (1.5, 2)}, "the loudest value is 1.5000, not 1 as in the starter. How"),
        ({"wrong": (1.0,), "epochs": (FREED,)}, "Does it live until the worker comes for it?"),
        ({"epochs": (KILLED,)}, "(exit code -9). What in your class ends a process?"),
        ({"epochs": (replace(GOOD, wrong=2),)}, "Read with 2 workers under fork, from the last"),
    ],
)
def test_what_is_wrong_with_clips_is_told(differs: dict[str, Any], told: str) -> None:
    result = verdict(lambda: transfer.judge(replace(RIGHT, **differs)))
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# What its notebook uses


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["06.diagnose", "06.fix", "06.transfer"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_of_everything_in_the_tiles_only_the_lock_cannot_be_pickled() -> None:
    def held(thing: Any) -> list[str]:
        return [name for name, value in vars(thing).items() if problem_with(value)]

    tiles = Tiles()
    assert held(tiles) == ["reader"]
    assert held(tiles.reader) == ["cache"]
    assert held(tiles.reader.cache) == ["turn"]
    assert problem_with(tiles) == "TypeError: cannot pickle '_thread.lock' object"
    assert tiles[0].shape == tiles[15].shape == (8, 8)


def test_a_run_is_told_in_a_line_and_what_a_dead_worker_wrote_below_it() -> None:
    case = generator_attribute.broken(workers=1, start_method="spawn")
    main, worker = told(observe(case.loader)).splitlines()
    assert main.startswith("RuntimeError: DataLoader worker")
    assert worker.startswith("  on stderr: RuntimeError: unable to resize file")
    assert told(observe(generator_attribute.broken(workers=0).loader)) == "finished"


@pytest.mark.thorough
def test_a_new_interpreter_costs_more_than_a_fork() -> None:
    (fork, mb), (spawn, more), (forkserver, _) = (
        [float(each.split()[0]) for each in row[1:]] for row in costs().rows
    )
    assert spawn > 3 * fork
    assert forkserver > 3 * fork
    assert more > 3 * mb


@pytest.mark.thorough
def test_a_server_that_has_the_imports_gives_the_second_epoch_its_workers_at_once() -> None:
    seconds: list[float] = []

    def epoch(loader: Any) -> None:
        started, batches = time.perf_counter(), iter(loader)
        next(batches)
        seconds.append(time.perf_counter() - started)
        list(batches)

    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    forkserver.set_forkserver_preload(["torch", "dltutor.failures.main_only_class"])
    try:
        loader = DataLoader(Squares(16), 4, num_workers=1, multiprocessing_context="forkserver")
        observe(loader, consume=epoch, epochs=2, deadline=90)
    finally:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
        forkserver.set_forkserver_preload([])
    first, second = seconds
    assert first > 3 * second


def test_a_file_is_imported_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    path = tmp_path / "changing.py"
    for value in (1, 2):
        path.write_text(f"VALUE = {value}\n")
        assert value == import_file(path).VALUE
    del sys.modules["changing"]


STARTER = '''
import os
SIZE = 8  # bytes

class MyRecords(Dataset):
    """Text."""
    def __init__(self, path, count):
        self.path = path
        self.count = count
        self.handle = open(self.path, "rb")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.handle.seek(index * SIZE)
        return torch.tensor(list(self.handle.read(SIZE)))
'''


@pytest.mark.parametrize(
    ("source", "starter", "holds"),
    [
        (STARTER, MyRecords, True),
        (STARTER, Squares, False),
        (STARTER.replace("self.count = count", "self.count = 3"), MyRecords, False),
        (STARTER.replace("MyRecords", "Others"), MyRecords, False),
        (STARTER + "copyreg.pickle(io.BufferedReader, reopen)\n", MyRecords, False),
        (STARTER + "class", MyRecords, False),
        ("", MyRecords, False),
    ],
)
def test_a_file_that_only_holds_the_starter_is_told_from_its_text(
    source: str, starter: type, holds: bool
) -> None:
    assert only_holds(source, starter) is holds
