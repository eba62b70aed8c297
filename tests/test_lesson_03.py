"""Lesson 03: its checks tell deaths apart, on recorded evidence; its material is what it says."""

from __future__ import annotations

import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers.lesson_03 import WRONG_FIXES
from cells import answer_in
from torch.utils.data import DataLoader

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import VerifiedFrames, decode, exit_code_alone
from dltutor.failures.material import scans
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_03 import fix, transfer
from dltutor.lessons.lesson_03.material import Film, fresh_film
from dltutor.observation import observe
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "03-exited-unexpectedly.ipynb"

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


# The notebook


@pytest.mark.parametrize(
    ("exercise", "cells", "name"),
    [
        ("03.fix", ["setup", "fix"], "MyFrames"),
        ("03.transfer", ["setup", "transfer"], "MyScans"),
    ],
)
def test_an_untouched_starter_is_not_attempted(exercise: str, cells: list[str], name: str) -> None:
    result = check(exercise, answer_in(read(TWIN), *cells)[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


# What the judge of "03.fix" says of recorded evidence

PATHS = [Path("/film", name) for name in "abcd"]
FILM = Film(PATHS, {"b": b"1", "d": b"2"}, {"a": 139, "c": 139})
SEGFAULT = fix.Reading(
    "segfault",
    FILM,
    run=Ending("finished", 6),
    came=(("b", "d"), ("d", "b")),
    quarantined={"a": "SIGSEGV", "c": "killed by SIGSEGV (exit code -11)"},
)
EXIT = replace(SEGFAULT, how="exit", quarantined={"a": "exit code 139", "c": "exited with 139"})


def told(epoch: fix.Reading = SEGFAULT, **differs: Any) -> Result:
    return verdict(lambda: fix.judge((replace(epoch, **differs),)))


def says(reason: Any) -> dict[str, dict[str, Any]]:
    return {"quarantined": {"a": reason, "c": reason}}


@pytest.mark.parametrize(
    ("epoch", "reason"),
    [
        (SEGFAULT, "SIGSEGV"),
        (SEGFAULT, "SEGV"),
        (SEGFAULT, "Segmentation fault"),
        (SEGFAULT, "Segfault (core dumped)"),
        (replace(SEGFAULT, how="abort"), "abort"),
        (SEGFAULT, "exit code -11"),
        (SEGFAULT, "exit code 139"),
        (SEGFAULT, "returncode=-11, died of signal 11"),
        (SEGFAULT, "killed by signal 11"),
        (SEGFAULT, "take-042.frame: died with -11"),
        (EXIT, "attempt 1 of 1: exit code 139"),
        (EXIT, "exit code 139"),
        (EXIT, "returned non-zero exit status 139."),
    ],
)
def test_what_names_the_death_is_a_reason(epoch: fix.Reading, reason: str) -> None:
    assert told(epoch, **says(reason)).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("epoch", "reason", "text"),
    [
        (SEGFAULT, "-11", "`signal.Signals(11).name`"),
        (SEGFAULT, "11", "`signal.Signals(11).name`"),
        (SEGFAULT, "", "`signal.Signals(11).name`"),
        (EXIT, "139", 'words, such as "exit code 139"'),
        (SEGFAULT, ["SIGSEGV"], "one reason is ['SIGSEGV']. Whoever reads the log wants words"),
        (SEGFAULT, "bad", "one reason is 'bad'. A process that decodes this frame is killed by"),
        (EXIT, "exit", "ended with exit code 139. Is that what ended"),
        (SEGFAULT, "SIGKILL", "is killed by SIGSEGV (exit code -11). Is that what ended"),
        (SEGFAULT, "killed", "is killed by SIGSEGV (exit code -11). Is that what ended"),
        (SEGFAULT, "SIGSEGV or SIGABRT", "Is that what ended"),
        (SEGFAULT, "SIGSEGV or exit code 3", "Is that what ended"),
        (EXIT, "exit code 3", "ended with exit code 139. Is that what ended"),
        (SEGFAULT, "SIGSEGV, exit code 11", "Is that what ended"),
        (EXIT, "exit code 139, signal 139", "Is that what ended"),
        (EXIT, "SIGSEGV", "ended with exit code 139. Is that what ended"),
    ],
)
def test_what_does_not_name_the_death_or_another_is_told(
    epoch: fix.Reading, reason: str, text: str
) -> None:
    result = told(epoch, **says(reason))
    assert result.outcome is Outcome.NOT_YET
    assert text in result.text


DEAD = Ending("worker died", 6, fates="W0 killed by SIGSEGV")


@pytest.mark.parametrize(
    ("differs", "text"),
    [
        ({"run": DEAD, "quarantined": {"a": "x"}}, "Deadly frames: 2; set aside: 1. What is"),
        ({"run": DEAD, "quarantined": []}, "W0 killed by SIGSEGV. Deadly frames: 2; set aside: 0"),
        ({"run": Ending("raised", 6, message="E: daemonic processes")}, "a worker may not start"),
        ({"run": Ending("hung", 6)}, "The run did not end within 6 s"),
        ({"came": ((),)}, "0 samples come, and with them 0 of the 2 frames"),
        (
            {"came": (("b", "d"), ("d",))},
            "In the second epoch, 1 samples come, and with them 1 of the 2",
        ),
        ({"came": (("b", "NoneType"),)}, "The first is `NoneType`, not `uint8 (64,)`"),
        ({"came": (("b", "uint8 (64,)"),)}, "1 of 2 samples are no frame of the film. The first"),
        ({"came": (("uint8 (64,)",),)}, "`uint8 (64,)`, other pixels than any file has"),
        ({"came": (("b", "d", "b"),)}, "3 samples come, and with them 2 of the 2 frames"),
        ({"quarantined": None}, "has no `quarantined`"),
        ({"quarantined": ["a"]}, "has ['a'] as `quarantined`"),
        ({"quarantined": {"/film/a": "x"}}, "file's name in this film: '/film/a'. The"),
        (
            {"quarantined": dict.fromkeys("acx", "SIGSEGV")},
            "file's name in this film: 'x'. The deadly",
        ),
        (
            {"quarantined": {"b": "SIGSEGV"}},
            "has 1 of the 2 frames that can be decoded, one with the reason 'SIGSEGV'",
        ),
        (
            {"quarantined": {"a": "SIGSEGV"}},
            "`quarantined` lacks 'c'. The deadly files here are ['a', 'c']",
        ),
        ({"changed": ["a"]}, "The film's folder is not as it was: `a` differs"),
    ],
)
def test_each_thing_that_can_go_wrong_with_a_film_is_told(
    differs: dict[str, Any], text: str
) -> None:
    result = told(**differs)
    assert result.outcome is Outcome.NOT_YET, result
    assert result.text.startswith('With `how="segfault"`: ')
    assert text in result.text


def test_an_error_of_the_learners_is_told_as_it_is() -> None:
    error = Ending("raised", 6, error="`NameError: x`.")
    assert str(told(run=error)) == 'Error in your code: With `how="segfault"`: `NameError: x`.'


# What the judge of "03.transfer" says

GOOD = transfer.Reading(2, Ending("finished", 15), came=12, wrong={}, took=7)


@pytest.mark.parametrize(
    ("differs", "outcome", "text"),
    [
        ({}, Outcome.CORRECT, "with the same thumbnails"),
        ({"took": 40}, Outcome.CORRECT, "No process took more than 40 MB"),
        ({"took": 41}, Outcome.NOT_YET, "with 2 workers under fork, a process took 41 MB beyond"),
        (
            {"run": Ending("hung", 15), "took": 80, "came": 3},
            Outcome.NOT_YET,
            "the run did not end within 15 s. And a process took 80 MB beyond",
        ),
        ({"came": 11}, Outcome.NOT_YET, "11 of 12 samples come. Each"),
        ({"workers": 0, "came": 25}, Outcome.NOT_YET, "25 of 24 samples come. Each"),
        ({"wrong": {5: "uint8 (4, 64, 64)"}}, Outcome.NOT_YET, "with 5 slices are others. Which"),
        ({"wrong": {5: "list"}}, Outcome.NOT_YET, "5 slices are `list`. They were `uint8"),
        ({"changed": ["a"]}, Outcome.NOT_YET, "the scans' folder is not as it was. `a` differs"),
        ({"run": Ending("raised", 15, error="`KeyError: 1`.")}, Outcome.ERROR, "`KeyError: 1`."),
    ],
)
def test_each_thing_that_can_go_wrong_with_scans_is_told(
    differs: dict[str, Any], outcome: Outcome, text: str
) -> None:
    result = verdict(lambda: transfer.judge((GOOD, replace(GOOD, **differs))))
    assert result.outcome is outcome, result
    assert text.lower() in result.text.lower()


# The material


def test_the_fresh_film_is_not_the_lessons_and_its_deadly_frames_are_deadly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a check's own goes with its process
    lesson: Any = dead_worker.broken().loader.dataset
    film = fresh_film(4, (0, 3))
    assert set(film.deadly) == {film.paths[0].name, film.paths[3].name}
    assert not {path.name for path in film.paths} & {path.name for path in lesson.paths}
    assert len(set(film.pixels.values())) == len(film.pixels) == 2
    codes = {name: f"exit code {code}" for name, code in film.deadly.items()}
    assert VerifiedFrames(film.paths, "exit").quarantined == codes
    for path in film.paths:
        if path.name in film.pixels:
            assert decode(path.read_bytes(), "exit").tobytes() == film.pixels[path.name]


def test_frames_can_be_tried_by_the_threads_of_a_pool() -> None:
    frames: Any = dead_worker.broken(how="segfault").loader.dataset
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda index: exit_code_alone(frames.__getitem__, index), (8, 9)))
    assert codes == [0, -signal.SIGSEGV]


def test_both_kinds_of_scans_give_the_same_thumbnails() -> None:
    paths = [path for i, path in enumerate(scans.scan_paths()) if i != scans.THE_LONG_ONE]
    wide, thin = scans.Scans(paths), scans.ThinScans(paths)
    for index in range(len(paths)):
        assert np.shape(wide[index]) == (scans.WANTED, 64, 64)
        assert np.array_equal(wide[index], thin[index])


def test_one_scan_is_far_larger_than_the_memory_that_the_lesson_grants() -> None:
    slices = [len(scans.read_scan(path)) for path in scans.scan_paths()]
    assert slices.pop(scans.THE_LONG_ONE) == scans.LONG > 600
    assert set(slices) == {scans.USUAL}


def test_workers_read_the_same_slices() -> None:
    came: list[Any] = []

    def keep(loader: DataLoader[Any]) -> None:
        came.extend(batch.copy() for batch in loader)

    assert observe(scans.fixed().loader, consume=keep).samples == scans.COUNT
    assert all(map(np.array_equal, came, scans.fixed(workers=0).loader))


def test_freed_memory_of_the_kernel_hides_nothing_that_an_answer_takes() -> None:
    held = [np.zeros(20_000, np.uint8) for _ in range(15_000)]
    last = held[-1]
    del held  # 300 MB, free for whoever comes next, below the last block
    wrong, _ = WRONG_FIXES["03.transfer"]["views of every slice"]
    assert check("03.transfer", wrong()).outcome is Outcome.NOT_YET
    assert not last.any()
