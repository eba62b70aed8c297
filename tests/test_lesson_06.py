"""Lesson 06: what its judges say of recorded evidence, and what its notebook uses."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dltutor.failures import generator_attribute
from dltutor.failures.main_only_class import Squares
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome
from dltutor.lessons.kit.sources import only_holds
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.material import MyRecords, Tiles, costs, told
from dltutor.lessons.lesson_06.transfer import CLIPS, LENGTH, SEEDS, USUAL
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
        ({"kept": False}, "The file of records is gone, or was written to"),
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
        ({"epochs": (fix.Epoch(DIED),)}, "RuntimeError: no`. Which of what it uses is not there"),
        ({"epochs": (fix.Epoch(KILLED),)}, "(exit code -9). What in your class ends a process?"),
        ({"epochs": (fix.Epoch(replace(GOOD, wrong=2)),)}, "under fork, 2 of 64 records are wrong"),
    ],
)
def test_what_is_wrong_with_records_is_told(differs: dict[str, Any], told: str) -> None:
    result = verdict(lambda: fix.judge(replace(RECORDS, **differs)))
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# 06.transfer


def noise(seed: int = 0, *, deviation: float = 0.1, mean: float = 0.0) -> torch.Tensor:
    """That of all clips with each seed, each value new and normal."""
    size, generator = (len(SEEDS), CLIPS, LENGTH - 1), torch.Generator().manual_seed(seed)
    return mean + deviation * torch.randn(size, generator=generator, dtype=torch.float64)


def evidence(noise: torch.Tensor) -> transfer.Evidence:
    """What a right answer gives whose noise this is."""
    return transfer.Evidence(
        USUAL, "", "", torch.ones(USUAL), 0, noise, noise[0, ::50].clone(), (GOOD,)
    )


def repeated(to: tuple[int, int], source: tuple[int, int]) -> torch.Tensor:
    """Noise in which one sample, (seed, index), has that of another."""
    changed = noise()
    changed[to] = changed[source]
    return changed


RIGHT = evidence(noise())


def test_clips_that_are_the_same_everywhere_are_correct() -> None:
    result = verdict(lambda: transfer.judge(RIGHT))
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("24 of 24 clips are the same with 0, 2 and 4 workers")


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (replace(RIGHT, problem="`TypeError: no`."), "cannot be pickled: `TypeError: no`."),
        (replace(RIGHT, length=3), "`len(dataset)` is 3"),
        (replace(RIGHT, changed="the file of clips"), "changed the file of clips"),
        (
            replace(RIGHT, loudest=torch.tensor([1.0, 1.5])),
            "The loudest value of sample 1 is 1.5000",
        ),
        (evidence(0 * noise()), "there is no noise"),
        (replace(RIGHT, elsewhere=noise(1)[0, ::50]), "made with the same seed from other clips"),
        (evidence(repeated((0, 0), (0, 50))), "63 in sample 50 with seed 11"),
        (evidence(repeated((1, 0), (0, 0))), "63 in sample 0 with seed 0"),
        (evidence(repeated((1, 2), (1, 1))), "in sample 1 with seed 0"),
        (evidence(noise(deviation=0.2)), "a standard deviation of 0.2"),
        (evidence(noise(mean=0.1)), "mean of 0.1"),
        (evidence((noise() + noise().roll(1, -1)) / 2**0.5), "with a correlation of 0.5"),
        (replace(RIGHT, epochs=(FREED,)), "Does it live until the worker comes for it?"),
        (replace(RIGHT, epochs=(KILLED,)), "(exit code -9). What in your class ends a process?"),
        (replace(RIGHT, other=2), "something that they are made of changes"),
        (replace(RIGHT, epochs=(replace(GOOD, wrong=2),)), "2 of 24 samples are not main's"),
    ],
)
def test_what_is_wrong_with_clips_is_told(seen: transfer.Evidence, told: str) -> None:
    result = verdict(lambda: transfer.judge(seen))
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
def test_a_new_interpreter_costs_more_than_a_fork_until_a_server_has_the_imports() -> None:
    costly = {name: [float(each.split()[0]) for each in rest] for name, *rest in costs().rows}
    (fork, mb), (spawn, more), again = (
        costly[name] for name in ("fork", "spawn", "the same server, next epoch")
    )
    assert spawn > 3 * fork
    assert spawn > 3 * again[0]
    assert costly["forkserver, preloaded"][0] > 3 * fork
    assert more > 3 * mb


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
