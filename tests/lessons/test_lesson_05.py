"""Check lesson 05's judges on made-up evidence, and its notebook's code."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from cells import source
from torch.utils.data import DataLoader, Dataset, Subset

from dltutor.failures.data.records import LENGTH, SIZE, decode, shared_records
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.lesson_05 import fix, transfer
from dltutor.lessons.lesson_05.delivery import RUNS, Delivered
from notebooks import NOTEBOOKS, read

NOTEBOOK = read(NOTEBOOKS / "05-inherited-handles.ipynb")
FINISHED = Ending("finished", 10)
HUNG = Ending("hung", 10, stood="W0 was at a.py, line 3.")
RAISED = Ending("raised", 10, raised_in_worker="ValueError", error="`ValueError` in a.py.")
DIED = Ending("worker died", 10, fates="W0 killed by SIGKILL")
RIGHT = tuple(Delivered(workers, FINISHED, 48 * epochs, 48 * epochs) for workers, epochs in RUNS)


# What the judges find in made-up evidence that no answer in tests/answers reliably produces


@pytest.mark.parametrize(
    ("exercise", "delivered", "differs", "code"),
    [
        (fix, {"run": RAISED, "samples": 0}, {"moved": True}, "moved-and-raised"),
        (fix, {"wrong": 9, "others": 4}, {"moved": True}, "moved-and-wrong"),
        (fix, {}, {"moved": True}, "moved"),
        (fix, {"wrong": 9, "others": 4}, {}, "wrong-windows"),
        (fix, {"run": HUNG}, {}, "hung"),
        (fix, {"run": DIED}, {}, "worker-died"),
        (fix, {"samples": 40}, {}, "missing"),
        (fix, {"run": RAISED}, {"moved": True, "opened": 5}, "descriptors"),
        (fix, {"run": RAISED}, {}, "raised"),
        (transfer, {"run": HUNG}, {"over_main": 8}, "over-mains"),
        (transfer, {"wrong": 9, "others": 9}, {"over_main": 80}, "over-mains-and-wrong"),
        (transfer, {}, {"ended": True, "over_main": 1}, "mains-session-ended"),
        (transfer, {"wrong": 9}, {}, "wrong-rows"),
    ],
)
def test_what_a_race_decides_is_judged_by_what_was_seen(
    exercise: Any, delivered: dict[str, Any], differs: dict[str, Any], code: str
) -> None:
    with_two, *others = RIGHT
    with_two = replace(with_two, **delivered)
    runs = (exercise.Epochs(with_two, **differs), *map(exercise.Epochs, others))
    assert verdict(lambda: exercise.GRADER.judge(runs)).code == code


# Code from the notebook


def taken_home() -> dict[str, Any]:
    """Run the notebook's code for `digest`, `differs`, and `moved`, and return its globals."""
    known: dict[str, Any] = {"os": os, "torch": torch, "DataLoader": DataLoader}
    for name in ("digest", "differs", "moved"):
        exec(source(name, NOTEBOOK).partition("\nprint(")[0], known)
    return known


class Mixed(Dataset[Any]):
    """A dataset of dicts. A worker changes a sample if the sample's index is in `wrong`."""

    def __init__(self, wrong: tuple[int, ...] = ()) -> None:
        self.wrong = wrong
        self.all = torch.arange(1000).reshape(10, 100)

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        there = torch.utils.data.get_worker_info() is not None and index in self.wrong
        view = self.all[index][3:50]
        return {"x": view + there, "path": f"{index}.jpg", "n": np.arange(index), "pair": (1, None)}


@pytest.mark.parametrize(("wrong", "workers"), [((), 2), ((0, 9), 1), ((2, 5), 2)])
def test_the_comparison_names_the_samples_that_differ(wrong: tuple[int, ...], workers: int) -> None:
    differs = taken_home()["differs"]
    backwards = Subset(Mixed(wrong), range(9, -1, -1))
    assert differs(backwards, workers) == [9 - index for index in reversed(wrong)]


def test_equal_samples_have_one_digest_whatever_they_are_views_of() -> None:
    digest = taken_home()["digest"]
    assert digest(Mixed()[3]) == digest(Mixed()[3]) != digest(Mixed()[4])
    ring = torch.zeros(8, 100)
    before = digest((ring[3], {"x": [ring[3]]}))
    ring[4] = 1
    assert digest((ring[3], {"x": [ring[3]]})) == before
    ring[3] = 1
    assert digest((ring[3], {"x": [ring[3]]})) != before


class ByPosition(Dataset[torch.Tensor]):
    """A dataset that seeks and reads in one file, without the delay of the lesson's slow disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        self.file.seek(SIZE * index)
        return decode(self.file.read(SIZE))


class Positioned(ByPosition):
    def __getitem__(self, index: int) -> torch.Tensor:
        return decode(os.pread(self.file.fileno(), SIZE, SIZE * index))


@pytest.mark.skipif(not psutil.LINUX, reason="only Linux tells the positions of files")
@pytest.mark.parametrize(("kind", "moves"), [(ByPosition, True), (Positioned, False)])
def test_a_position_that_a_worker_moves_is_seen_on_a_fast_disk_too(
    kind: type[ByPosition], moves: bool
) -> None:
    dataset = kind(shared_records())
    # Look only for the dataset's file, because other processes may write to a log that this process
    # has open, too, and move its position.
    assert (dataset.path.name in taken_home()["moved"](dataset, 2)) is moves
    dataset.file.close()
