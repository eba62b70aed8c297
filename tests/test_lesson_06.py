"""Lesson 06: what its judges say of recorded evidence, and what its notebook uses."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dltutor.failures.main_only_class import Squares
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome
from dltutor.lessons.kit.sources import only_holds
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.files import import_file
from dltutor.lessons.lesson_06.fix import Reading
from dltutor.lessons.lesson_06.material import MyRecords, Tiles
from dltutor.lessons.lesson_06.transfer import Noise
from dltutor.lessons.lesson_06.travel import RUNS, Epoch, Sent, packed, without_pickle

FINISHED = Ending("finished", 8)
GOOD_EPOCHS = tuple(Epoch(method, workers, FINISHED) for method, workers in RUNS)
SENT = Sent(200)
LOST = Sent(reason="TypeError: cannot pickle", names=("handle",))
RAISED = Ending("raised", 8, kind="TypeError", error="`TypeError: no`.")
DIED = Ending("worker died", 8, fates="W0 ended with exit code 1", last_words="RuntimeError: no")


def epochs(number: int, **differs: Any) -> tuple[Epoch, ...]:
    """The good epochs up to this one, which differs."""
    return (*GOOD_EPOCHS[:number], replace(GOOD_EPOCHS[number], **differs))


# 06.fix


RECORDS = fix.Evidence(
    length=60_000,
    fresh=SENT,
    alone=Reading(opened=1),
    used=SENT,
    copy=Reading(opened=1),
    again=Reading(),
    epochs=GOOD_EPOCHS,
)


@pytest.mark.parametrize(
    ("opened", "told"),
    [((), "none of them moves its read position"), ((1, 1), "Each forked worker opens the file")],
)
def test_records_that_arrive_everywhere_are_correct(opened: tuple[int, ...], told: str) -> None:
    arrived = tuple(replace(each, opened=opened) for each in GOOD_EPOCHS)
    result = verdict(lambda: fix.judge(replace(RECORDS, epochs=arrived)))
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("32 of 32 records arrive under fork and under spawn")
    assert told in result.text


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"fresh": LOST}, "A fresh dataset cannot be pickled: `TypeError: cannot pickle`."),
        ({"fresh": LOST}, "It is in `handle`."),
        ({"length": 32}, "The file holds 60000 records, and `len(dataset)` is 32"),
        ({"alone": Reading(wrong=3)}, "Without any worker, 3 of 32 records"),
        ({"alone": Reading(opened=2)}, "opened the file 2 times"),
        ({"used": LOST}, "After `dataset[0]` in main the dataset cannot be pickled"),
        ({"used": Sent(480_000)}, "468 KB, for a file of 468 KB: the file itself goes to"),
        ({"copy": Reading(error="`TypeError`.")}, "What arrives cannot read: `TypeError`."),
        ({"copy": Reading(wrong=1)}, "What arrives delivers other records"),
        ({"copy": Reading(opened=2)}, "the file is opened 2 times for one dataset"),
        ({"again": Reading(error="`TypeError`.")}, "main's own dataset no longer does"),
        ({"again": Reading(wrong=1)}, "main's own dataset delivers other records now"),
        ({"again": Reading(opened=1)}, "has to open it once more"),
        ({"epochs": epochs(0, moved=True)}, "moved the read position of the file that main has"),
        ({"epochs": epochs(0, run=RAISED)}, "with 2 workers, it ends with `TypeError: no`."),
        ({"epochs": epochs(0, run=RAISED, moved=True)}, "moved the read position"),
        ({"epochs": epochs(1, wrong=2)}, "Under fork, with 4 workers, 2 of 32 records"),
        ({"epochs": epochs(1, opened=(1, 8))}, "one worker opened the file 8 times"),
        ({"epochs": epochs(2, opened=(32,))}, "In a new interpreter (spawn), the records are rig"),
        ({"epochs": epochs(2, run=RAISED)}, "`TypeError: no`. Which of what it reads did not"),
        ({"epochs": epochs(2, run=RAISED), "filled": "`X` is a global."}, "`X` is a global."),
        ({"epochs": epochs(2, run=DIED)}, "W0 ended with exit code 1, with the last words"),
    ],
)
def test_what_is_wrong_with_records_is_told(differs: dict[str, Any], told: str) -> None:
    result = verdict(lambda: fix.judge(replace(RECORDS, **differs)))
    assert result.outcome is Outcome.NOT_YET
    assert told[:1].lower() + told[1:] in result.text or told in result.text


# 06.transfer


CLIPS = transfer.Evidence(SENT, epochs=GOOD_EPOCHS[::-1])


def test_clips_that_are_the_same_everywhere_are_correct() -> None:
    result = verdict(lambda: transfer.judge(CLIPS))
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("16 of 16 clips are the same with 0 workers")


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"sent": LOST}, "The dataset cannot be pickled"),
        ({"length": 3}, "`len(dataset)` is 3"),
        ({"global_numbers": "uses up global numbers of torch"}, "uses up global numbers of torch"),
        ({"loudest": 1.2}, "The loudest value of a sample is 1.20"),
        ({"shape": (3,)}, "the shape (3,)"),
        ({"noise": Noise(none=True)}, "there is no noise"),
        ({"noise": Noise(repeated=False)}, "Made again with the same seed"),
        ({"noise": Noise(numbers=1)}, "the 64 values of the noise are one number"),
        ({"noise": Noise(numbers=2)}, "are 2 different numbers"),
        ({"noise": Noise(alike=(0, 3))}, "Samples 0 and 3 have the same noise"),
        ({"noise": Noise(same_for_seeds=tuple(range(16)))}, "Seed 5 and seed 1005 give the same"),
        ({"noise": Noise(same_for_seeds=(4,))}, "give sample 4 the same noise"),
        ({"noise": Noise(alike_with_0=(0, 1))}, "With seed 0, samples 0 and 1"),
        ({"noise": Noise(strange=5)}, "5 of 16 clips have other noise than a clip of silence"),
        ({"noise": Noise(loudness=0.2)}, "the noise is 0.200 loud"),
        ({"epochs": epochs(0, run=DIED), "lost": "What is lost?"}, "What is lost?"),
        ({"epochs": epochs(1, wrong=2)}, "with 4 workers, 2 of 16 samples are not those of 0"),
        ({"depends": True}, "`dataset[3]` twice gives two samples"),
        ({"depends": True, "held": "rng"}, "from `rng`, of which every worker has a copy"),
    ],
)
def test_what_is_wrong_with_clips_is_told(differs: dict[str, Any], told: str) -> None:
    result = verdict(lambda: transfer.judge(replace(CLIPS, **differs)))
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# What its notebook uses


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["06.predict", "06.diagnose", "06.fix", "06.transfer"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_of_everything_in_the_tiles_only_the_lock_cannot_be_pickled() -> None:
    tiles = Tiles()
    assert without_pickle(tiles) == ["reader"]
    assert without_pickle(tiles.reader) == ["cache"]
    assert without_pickle(tiles.reader.cache) == ["turn"]
    assert packed(tiles)[1] == "TypeError: cannot pickle '_thread.lock' object"
    assert tiles[0].shape == tiles[15].shape == (8, 8)


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
        return torch.tensor(list(os.pread(self.handle.fileno(), SIZE, index * SIZE)))
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
