"""Check lesson 03's judges on made-up evidence, its helpers, and the code in its `On call`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers.lesson_03 import WRONG_FIXES
from cells import source, to_copy

from dltutor.failures import dead_worker
from dltutor.failures.data import scans
from dltutor.failures.dead_worker import VerifiedFrames, decode, exit_code_alone
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_03 import fix, transfer
from dltutor.lessons.lesson_03.helpers import Film, fresh_film
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "03-exited-unexpectedly.ipynb"

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


_CRASH = """


class Crashing(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return ctypes.string_at(0) if index == 5 else index


loader = DataLoader(Breadcrumbs(Crashing(), sys.argv[1]), num_workers=1, shuffle=True)
list(loader)
"""


# When a worker dies, torch raises an error in whatever main is doing. If main is making one of
# torch's own temporary files, the file stays, so use a folder that is removed after the test.
@pytest.mark.usefixtures("short_folder")
def test_the_code_for_on_call_names_the_sample_even_if_faulthandler_was_on(tmp_path: Path) -> None:
    [code] = to_copy("on-call", read(TWIN))
    shown = source("crumbs", read(TWIN))
    assert shown[shown.index("class ") :].strip() in code, "it should be the code of the lesson"
    job = tmp_path / "job.py"
    job.write_text(f"import ctypes, sys\nfrom torch.utils.data import DataLoader\n{code}{_CRASH}")
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", job, tmp_path], capture_output=True, text=True
    )
    assert run.returncode, "a worker should have died"
    [breadcrumb] = tmp_path.glob("sample-*")
    assert breadcrumb.read_text() == "5"
    current = run.stderr.partition("Current thread")[2]
    assert re.search(r'File ".*job.py", line \d+ in __getitem__', current)


# What the judge of "03.fix" finds in made-up evidence

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
    return verdict(lambda: fix.GRADER.judge((replace(epoch, **differs),)))


@pytest.mark.parametrize(
    ("epoch", "reason"),
    [
        (SEGFAULT, "SIGSEGV"),
        (SEGFAULT, "Segmentation fault"),
        (SEGFAULT, "exit code 139"),
        (SEGFAULT, "exit code -11"),
        (SEGFAULT, "Segfault (core dumped)"),
        (SEGFAULT, "killed by signal 11"),
        (SEGFAULT, "take-042.frame: died with -11"),
        (EXIT, "attempt 1 of 1: returned non-zero exit status 139."),
    ],
)
def test_a_reason_can_name_the_death_in_many_ways(epoch: fix.Reading, reason: str) -> None:
    assert told(epoch, quarantined={"a": reason, "c": reason}).outcome is Outcome.CORRECT


def test_a_quarantine_that_is_no_dict_is_found() -> None:
    assert told(quarantined=["a"]).code == "not-a-dict"


# What the judge of "03.transfer" finds in made-up evidence

GOOD = transfer.Reading(2, Ending("finished", 15), came=12, wrong={}, took=7)


@pytest.mark.parametrize(
    ("differs", "outcome", "code"),
    [
        ({"took": 40}, Outcome.CORRECT, "correct"),
        ({"took": 41}, Outcome.NOT_YET, "too-large"),
        ({"run": Ending("hung", 15)}, Outcome.NOT_YET, "hung"),
        (
            {"run": Ending("hung", 15), "took": 80, "came": 3},
            Outcome.NOT_YET,
            "too-large",
        ),
        ({"workers": 0, "came": 25}, Outcome.NOT_YET, "missing"),
    ],
)
def test_what_no_answer_shows_for_sure_about_scans_is_found(
    differs: dict[str, Any], outcome: Outcome, code: str
) -> None:
    result = verdict(lambda: transfer.GRADER.judge((GOOD, replace(GOOD, **differs))))
    assert (result.outcome, result.code) == (outcome, code)


# The helpers


def test_the_fresh_film_is_not_the_lessons_and_its_deadly_frames_are_deadly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Outside a check, nothing deletes the folder that `fresh_film` makes, so put it in `tmp_path`.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
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


def test_freed_memory_of_the_kernel_hides_nothing_that_an_answer_takes() -> None:
    held = [np.zeros(20_000, np.uint8) for _ in range(15_000)]
    last = held[-1]
    del held  # 300 MB stay free in the heap, because the last block lies above them
    wrong, _ = WRONG_FIXES["03.transfer"]["views of every slice"]
    assert check("03.transfer", wrong).outcome is Outcome.NOT_YET
    assert not last.any()
