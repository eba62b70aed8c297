"""Lesson 06: what its judges find in recorded evidence, and what its notebook uses."""

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
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "06-unpicklable-handles.ipynb"

FINISHED = Epoch("with 2 workers under fork", Ending("finished", 8))
RAISED = replace(FINISHED, run=Ending("raised", 8, error="`TypeError: no`."))
HUNG = replace(FINISHED, run=Ending("hung", 8))
DIED = replace(FINISHED, run=Ending("worker died", 8, last_words="RuntimeError: no"))
FREED = replace(FINISHED, run=replace(DIED.run, last_words="RuntimeError: unable to resize file"))


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (fix.Epoch(RAISED, moved=True), "moved-position"),
        (fix.Epoch(HUNG), "hung"),
        (fix.Epoch(DIED), "last-words"),
    ],
)
def test_how_a_run_of_records_ended_is_judged(epoch: fix.Epoch, code: str) -> None:
    result = verdict(lambda: fix.judge(fix.Evidence(60_000, epochs=(epoch,))))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


def test_records_of_another_length_are_not_read() -> None:
    assert verdict(lambda: fix.judge(fix.Evidence(32))).code == "other-length"


def test_a_tensor_that_is_freed_too_early_explains_what_is_wrong_in_main() -> None:
    evidence = transfer.Evidence(CLIPS, wrong=(1.0,), epochs=(FREED,))
    assert verdict(lambda: transfer.judge(evidence)).code == "freed-tensor"


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


def test_the_class_for_who_is_on_call_is_a_fix(tmp_path: Path) -> None:
    [text] = [cell.source for cell in read(NOTEBOOK).cells if cell.id == "on-call"]
    lines = text.partition("```python\n")[2].partition("```")[0]
    path = tmp_path / "on_call.py"
    path.write_text(lines + MY_RECORDS)
    result = check("06.fix", path)
    assert result.outcome is Outcome.CORRECT, result


MY_RECORDS = """

import torch


class MyRecords(Records):
    def __init__(self, path, count):
        super().__init__(path)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.file().seek(8 * index)
        return torch.tensor(list(self.file().read(8)))
"""


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
