"""Lesson 03: its checks tell deaths apart, on recorded evidence; its material is what it says."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers.lesson_03 import keeps_texts
from cells import answer_in
from torch.utils.data import DataLoader

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import VerifiedFrames, decode
from dltutor.failures.material import scans
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.lesson_03 import diagnose, fix, transfer
from dltutor.lessons.lesson_03.diagnose import Tried
from dltutor.lessons.lesson_03.epochs import Epoch, Show
from dltutor.lessons.lesson_03.material import Film, fresh_film, make_shards
from dltutor.lessons.lesson_03.transfer import Shift
from dltutor.observation import observe
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "03-exited-unexpectedly.ipynb"

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


# The notebook


@pytest.mark.parametrize(
    ("exercise", "cells", "name"),
    [
        ("03.predict", ["predict"], "prediction"),
        ("03.diagnose", ["diagnose"], "culprit"),
        ("03.fix", ["setup", "fix"], "MyFrames"),
        ("03.transfer", ["setup", "transfer"], "my_train"),
    ],
)
def test_an_untouched_starter_is_not_attempted(exercise: str, cells: list[str], name: str) -> None:
    result = check(exercise, answer_in(read(TWIN), *cells)[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


def test_the_solutions_are_correct() -> None:
    solved = answer_in(read(TWIN), "setup", "fix-solved", "transfer-solved")
    assert check("03.fix", solved["MyFrames"]).outcome is Outcome.CORRECT
    assert check("03.transfer", solved["my_train"]).outcome is Outcome.CORRECT


def test_the_untouched_loop_leaves_the_workers_of_each_failed_shard() -> None:
    result = check("03.transfer", keeps_texts)
    assert "4 workers of failed shards are alive when the function comes back" in result.text


# What the judge of "03.fix" says of recorded evidence

FILM = Film("/film", ("a", "b", "c", "d"), {"b": b"1", "d": b"2"})
SEGFAULT = Epoch(
    Show("segfault", 4, (0, 2), 2),
    "X(paths, how)",
    FILM,
    death=-11,
    run=Ending("finished", 6),
    frames=("b", "d"),
    quarantined={"a": "SIGSEGV", "c": "killed by SIGSEGV (exit code -11)"},
)
EXIT = replace(
    SEGFAULT,
    show=Show("exit", 4, (0, 2), 2),
    death=71,
    quarantined={"a": "exit code 71", "c": "exited with 71"},
)


def told(epoch: Epoch = SEGFAULT, **differs: Any) -> Result:
    return verdict(lambda: fix.judge((replace(epoch, **differs),)))


def says(reason: str) -> dict[str, dict[str, str]]:
    return {"quarantined": {"a": reason, "c": reason}}


@pytest.mark.parametrize(
    ("epoch", "reason"),
    [
        (SEGFAULT, "SIGSEGV"),
        (SEGFAULT, "Segmentation fault"),
        (SEGFAULT, "exit code -11"),
        (SEGFAULT, "exit code 139"),
        (SEGFAULT, "returncode=-11, died of signal 11"),
        (SEGFAULT, "killed by signal 11"),
        (EXIT, "exit code 71"),
        (EXIT, "returned non-zero exit status 71."),
    ],
)
def test_what_names_the_death_is_a_reason(epoch: Epoch, reason: str) -> None:
    assert told(epoch, **says(reason)).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("epoch", "reason", "text"),
    [
        (SEGFAULT, "-11", "`signal.Signals(11).name`"),
        (SEGFAULT, "11", "`signal.Signals(11).name`"),
        (SEGFAULT, "", "`signal.Signals(11).name`"),
        (EXIT, "71", 'words: "exit code 71"'),
        (SEGFAULT, "bad", "the reason is `bad`. What did the process"),
        (SEGFAULT, "SIGKILL", "is killed by SIGSEGV (exit code -11). Was each frame tried"),
        (SEGFAULT, "killed", "is killed by SIGSEGV (exit code -11). Was each frame tried"),
        (SEGFAULT, "SIGSEGV or SIGABRT", "Was each frame tried"),
        (SEGFAULT, "SIGSEGV or exit code 3", "Was each frame tried"),
        (EXIT, "exit code 3", "ended with exit code 71. Was each frame tried"),
        (EXIT, "SIGSEGV", "ended with exit code 71. Was each frame tried"),
    ],
)
def test_what_does_not_name_the_death_or_another_is_told(
    epoch: Epoch, reason: str, text: str
) -> None:
    result = told(epoch, **says(reason))
    assert result.outcome is Outcome.NOT_YET
    assert text in result.text


DEAD = Ending("worker died", 6, fates="W0 killed by SIGSEGV")


@pytest.mark.parametrize(
    ("differs", "text"),
    [
        ({"run": None, "main": -11}, "`X(paths, how)` was killed by SIGSEGV (exit code -11). Here"),
        ({"run": None, "main": -15}, "SIGTERM (exit code -15). No frame does that here"),
        ({"run": None, "main": 7}, "`X(paths, how)` ended with exit code 7. No frame does that"),
        ({"run": DEAD, "swallows": True}, "nothing was raised here"),
        ({"run": DEAD, "quarantined": {"a": "x"}}, "Of 2 deadly frames your class set 1 aside."),
        ({"run": DEAD, "quarantined": {}}, "W0 killed by SIGSEGV. Of 2 deadly frames your class"),
        ({"run": Ending("raised", 6, message="E: daemonic processes")}, "a worker may not start"),
        ({"run": Ending("hung", 6)}, "the run did not end within 6 s"),
        ({"frames": ()}, "no frame arrives, and 2 of 4 can be decoded"),
        ({"nones": 2}, "2 samples are None"),
        ({"frames": ("b", "d", "", ""), "blank": 2}, "2 of 4 frames are blank"),
        ({"frames": ("b", "d", "")}, "1 of 3 frames are such that no file"),
        ({"frames": ("b", "d", "b")}, "one frame came 2 times"),
        ({"quarantined": "NoneType"}, "has no `quarantined`"),
        ({"quarantined": "list"}, "has a list there"),
        ({"quarantined": {"/film/a": "x"}}, "ends in `a`"),
        ({"quarantined": {"b": "SIGSEGV"}}, "1 frames that can be decoded"),
        ({"quarantined": {"a": "SIGSEGV"}}, "1 vanish without a word"),
    ],
)
def test_each_thing_that_can_go_wrong_with_a_film_is_told(
    differs: dict[str, Any], text: str
) -> None:
    result = told(**differs)
    assert result.outcome is Outcome.NOT_YET, result
    assert result.text.startswith('With `how="segfault"`: ')
    assert text in result.text


def test_under_which_decoders_all_is_well_is_told() -> None:
    failed = replace(EXIT, run=DEAD, quarantined={})
    result = verdict(lambda: fix.judge((SEGFAULT, failed)))
    assert result.text.startswith('With `how="segfault"` all is well. With `how="exit"`: W0 killed')
    assert result.text.endswith("Which exit codes mean that all went well?")


def test_an_error_of_the_learners_is_told_as_it_is() -> None:
    error = Ending("raised", 6, error="`NameError: x`.")
    assert str(told(run=error)) == "Error in your code: `NameError: x`."
    unmade = Result(Outcome.ERROR, "`KeyError: 1`.")
    assert told(run=None, unmade=unmade) == unmade


# What the other judges say


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (9, "Frame 9: the process that decoded it was killed by SIGSEGV"),
        (4, "4 is the number of the batch"),
        (10, "Indices count from 0"),
        (8, "You have the right batch"),
        (2, "It is in batch 1, which W1 loads"),
        (12, "Try every frame"),
        (16, "There is no frame 16"),
    ],
)
def test_an_index_is_judged_by_how_processes_ended(answer: int, text: str) -> None:
    codes = tuple(-11 if index == 9 else 0 for index in range(16))
    result = verdict(lambda: diagnose.judge(Tried(answer, codes)))
    assert text in result.text
    assert (result.outcome is Outcome.CORRECT) == (answer == 9)


GOOD = Shift(
    begun=(1, 2, 3, 4, 5),
    batches=(4, 2, 4, 2, 4),
    alive=(0,) * 6,
    workers=(2,) * 5,
    report=("could not convert '-.-'", "could not convert '3,75'"),
)


@pytest.mark.parametrize(
    ("differs", "outcome", "text"),
    [
        ({}, Outcome.CORRECT, "5 shards, 2 of them fail"),
        ({"waited": (2, 5.01)}, Outcome.NOT_YET, "After shard 2 the program stood still: torch"),
        ({"raised": "`KeyError: 3`."}, Outcome.ERROR, "`KeyError: 3`."),
        ({"raised": "`ValueError: x`.", "begun": (1, 2)}, Outcome.NOT_YET, "error of shard 2"),
        ({"workers": (2, 2, 0, 2, 2)}, Outcome.NOT_YET, "have 0 now"),
        ({"begun": (1, 2, 4, 5)}, Outcome.NOT_YET, "Shard 3 was never read"),
        ({"begun": (1, 2, 3, 4, 5, 5)}, Outcome.NOT_YET, "6 epochs began, for 5 shards"),
        ({"batches": (4, 2, 1, 2, 4)}, Outcome.NOT_YET, "Of shard 3, 1 of 4 batches were read"),
        ({"bystander": False}, Outcome.NOT_YET, "belongs to none of the shards"),
        ({"alive": (0, 0, 2, 0, 0, 0)}, Outcome.NOT_YET, "2 workers of a failed shard are alive"),
        ({"alive": (0, 0, 2, 2, 4, 4)}, Outcome.NOT_YET, "No name of yours is in that circle"),
        ({"alive": (0, 0, 2, 2, 4, 4), "timeout": True}, Outcome.NOT_YET, "`timeout=` is for"),
        ({"alive": (0, 2), "exceptions": True}, Outcome.NOT_YET, "Your report holds exceptions"),
        ({"report": "NoneType"}, Outcome.NOT_YET, "The function returns a NoneType"),
        ({"report": ("x",)}, Outcome.NOT_YET, "The report has 1 entries, and 0 of the bad"),
    ],
)
def test_each_thing_that_can_go_wrong_with_a_loop_is_told(
    differs: dict[str, Any], outcome: Outcome, text: str
) -> None:
    result = verdict(lambda: transfer.judge(replace(GOOD, **differs)))
    assert result.outcome is outcome, result
    assert text in result.text


# The material


def test_the_fresh_film_is_not_the_lessons_and_its_deadly_frames_are_deadly() -> None:
    lesson: Any = dead_worker.broken().loader.dataset
    film = fresh_film(4, (0, 3))
    assert film.deadly == {film.names[0], film.names[3]}
    assert not set(film.names) & {path.name for path in lesson.paths}
    assert len(set(film.pixels.values())) == len(film.pixels) == 2
    assert VerifiedFrames(film.paths, "abort").quarantined.keys() == film.deadly
    for path in film.paths:
        if path.name in film.pixels:
            assert decode(path.read_bytes(), "exit").tobytes() == film.pixels[path.name]


def test_a_decoder_exits_with_the_code_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = b"\xff" * 8
    assert dead_worker.exit_code_alone(decode, deadly, "exit") == 3
    monkeypatch.setenv(dead_worker.EXIT_CODE, "71")
    assert dead_worker.exit_code_alone(decode, deadly, "exit") == 71
    assert dead_worker.exit_code_alone(decode, deadly, "segfault") == -signal.SIGSEGV


def test_one_of_the_lessons_shards_fails() -> None:
    ends = [observe(shard).end for shard in make_shards("", "n/a", "")]
    assert ends == ["finished", "raised", "finished"]


def test_both_kinds_of_scans_give_the_same_thumbnails() -> None:
    paths = [path for i, path in enumerate(scans._paths()) if i != scans.THE_LONG_ONE]
    wide, thin = scans.Scans(paths), scans.ThinScans(paths)
    for index in range(len(paths)):
        assert wide[index].shape == (scans.WANTED, 64, 64)
        assert np.array_equal(wide[index], thin[index])


def test_one_scan_is_far_larger_than_the_memory_that_the_lesson_grants() -> None:
    slices = [len(scans.read_scan(path)) for path in scans._paths()]
    assert slices.pop(scans.THE_LONG_ONE) == scans.LONG > 600
    assert set(slices) == {scans.USUAL}


def test_workers_read_the_same_slices() -> None:
    came: list[Any] = []

    def keep(loader: DataLoader[Any]) -> None:
        came.extend(batch.copy() for batch in loader)

    assert observe(scans.fixed().loader, consume=keep).samples == scans.COUNT
    assert all(map(np.array_equal, came, scans.fixed(workers=0).loader))
