"""Lesson 07: what its judges say of recorded evidence, and what its notebook shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from cells import answer_in, source
from nbformat import NotebookNode
from torch.utils.data import DataLoader, Dataset

from dltutor import observe
from dltutor.failures.kit.contract import load
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.lesson_07 import fix, transfer
from dltutor.lessons.lesson_07.fix import Epochs
from dltutor.lessons.lesson_07.material import CLIPS, LETTERS, Server, marked
from dltutor.lessons.lesson_07.transfer import Epoch
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "07-the-loop-that-never-starts.ipynb"
FINISHED = Ending("finished", 6)
HUNG = Ending("hung", 6, stood="W0 stood at a.py, line 3.")


# 07.fix


GOOD = tuple(Epochs(workers, FINISHED, 28, opened=28) for workers in (2, 0, 4))


def told_of_fix(workers: int = 2, **differs: Any) -> Result:
    runs = tuple(replace(each, **differs) if each.workers == workers else each for each in GOOD)
    return verdict(lambda: fix.judge(runs))


def test_pairs_that_all_come_and_are_read_at_the_same_time_are_correct() -> None:
    result = told_of_fix()
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("14 of 14 pairs arrive in every epoch")


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"run": HUNG, "samples": 0}, "W0 stood at a.py, line 3. Who works for what"),
        ({"run": HUNG, "samples": 0, "main_started": "__init__"}, "a thread in `__init__`"),
        ({"run": HUNG, "samples": 28}, "its workers did not end"),
        ({"run": HUNG, "samples": 14}, "W0 stood at a.py, line 3. Who works for what"),
        ({"run": HUNG, "samples": 8, "apart": 2}, "image and mask are read one after the other"),
        ({"wrong": 3}, "3 of 28 pairs are not what the files held"),
        ({"workers": 0, "wrong": 3}, "Without workers, 3 of 28"),
        ({"workers": 4, "run": HUNG, "samples": 0}, "With 4 workers under fork, the run was"),
        ({"more": 24}, "24 reading threads were started after a worker's first pair, for 28"),
        ({"more": 2, "ended": 1}, "2 reading threads were started after a worker's first pair"),
        ({"changed": 1}, "1 times a file was changed or gone"),
        ({"opened": 0}, "opened none of their files in a worker"),
        ({"workers": 4, "apart": 1}, "With 4 workers under fork, image and mask"),
        (
            {"run": Ending("raised", 6, raised_in_worker="TimeoutError", error="`TimeoutError`.")},
            "`TimeoutError`. The wait has an end now",
        ),
        ({"run": Ending("worker died", 6, fates="W0 killed by SIGKILL")}, "W0 killed by SIGKILL"),
    ],
)
def test_what_is_wrong_with_pairs_is_told(differs: dict[str, Any], told: str) -> None:
    result = told_of_fix(**differs)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# 07.transfer


HALF_WAY = (Epoch("", FINISHED),) * 2
AT_A_STEP = Epoch("with self.lock:", FINISHED)


def told_of_transfer(*epochs: Epoch, **evidence: Any) -> Result:
    return verdict(lambda: transfer.judge(transfer.Evidence(epochs, **evidence)))


def test_labels_that_belong_together_at_every_fork_are_correct() -> None:
    result = told_of_transfer(*HALF_WAY, AT_A_STEP)
    assert result.outcome is Outcome.CORRECT
    assert "12 of 12 clips arrive in every epoch" in result.text


KEY_ERROR = Ending("raised", 4, raised_in_worker="KeyError", failed_worker=1, error="`KeyError`.")


@pytest.mark.parametrize(
    ("epochs", "evidence", "told"),
    [
        ((Epoch("", HUNG),), {}, "W0 stood at a.py, line 3. Which thread would let them"),
        ((Epoch("", KEY_ERROR),), {}, "W1 was forked when main's refresh was half-way, and"),
        ((HALF_WAY[0], Epoch("", FINISHED, "W0 is old.")), {}, "In epoch 1, W0 is old."),
        (HALF_WAY, {"main": 12}, "12 of 12 labels in main are not the corrected ones"),
        (HALF_WAY, {"reads": 7}, "a worker began 7 times to read"),
        ((*HALF_WAY, replace(AT_A_STEP, run=HUNG)), {}, "refresh was in `with self.lock:`"),
        ((*HALF_WAY, replace(AT_A_STEP, wrong="W0 is old.")), {}, "W0 is old. In that moment"),
    ],
)
def test_what_is_wrong_with_labels_is_told(
    epochs: tuple[Epoch, ...], evidence: dict[str, Any], told: str
) -> None:
    result = told_of_transfer(*epochs, **evidence)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


def test_a_correction_changes_every_label() -> None:
    server = Server()
    before = dict(server.read())
    server.version += 1
    after = dict(server.read())
    assert len(before) == CLIPS
    assert all(before[name] != after[name] for name in before)


# The notebook


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [("07.fix", "fix", "MyPairs"), ("07.transfer", "transfer", "MyClips")],
)
def test_the_notebooks_starter_is_not_attempted(exercise: str, cell: str, name: str) -> None:
    notebook = read(NOTEBOOK)
    known = answer_in(notebook, cell, **imported(notebook))
    assert check(exercise, known[name]).outcome is Outcome.NOT_ATTEMPTED


def imported(notebook: NotebookNode) -> dict[str, Any]:
    """What the setup cell imports, but for the package."""
    known: dict[str, Any] = {"threading": threading}
    lines = source("setup", notebook).splitlines()
    exec("\n".join(line for line in lines if "dltutor" not in line), known)
    return known


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["07.predict", "07.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_each_line_that_is_asked_about_has_its_letter_in_the_code() -> None:
    shown = marked().data.splitlines()
    for letter, text in LETTERS.items():
        assert [line for line in shown if line.endswith(f"# {letter}")], letter
        assert all(text in line for line in shown if line.endswith(f"# {letter}"))


def test_the_lines_for_who_is_in_a_hurry_are_a_fix() -> None:
    [text] = [cell.source for cell in read(NOTEBOOK).cells if cell.id == "card"]
    lines = text.partition("```python\n")[2].partition("```")[0]
    assert len(lines.strip().splitlines()) <= 10
    known: dict[str, Any] = {
        "ThreadPoolExecutor": ThreadPoolExecutor,
        "torch": torch,
        "DataLoader": partial(DataLoader, multiprocessing_context="fork"),
        "dataset": WithAPool(pairs_folder()),
    }
    assert observe(load(known["dataset"], 2, "fork"), deadline=3).end == "hung"
    exec(lines, known)
    assert observe(known["loader"]).end == "finished"


class WithAPool(Pairs):
    """Pairs, as the card names their executor."""

    @property
    def pool(self) -> ThreadPoolExecutor:
        return self.thread

    @pool.setter
    def pool(self, pool: ThreadPoolExecutor) -> None:
        self.thread = pool


def test_a_dump_that_is_armed_for_each_sample_comes_for_the_slow_one_alone() -> None:
    known = imported(read(NOTEBOOK))
    lines = source("watched", read(NOTEBOOK)).partition("\nloader = ")[0]
    exec(lines, known)
    quick, slow = (
        observe(load(known["Watched"](Naps(nap), 0.8), 1, "fork"), deadline=20).stderr
        for nap in (0.2, 1.6)
    )
    assert "Timeout" not in quick  # eight samples, of 1.6 s together
    assert "Timeout" in slow
    assert "in __getitem__" in slow


class Naps(Dataset[int]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 8 if self.seconds < 1 else 1

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds)
        return index


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_in_state_d_an_armed_dump_comes_and_a_signal_gets_no_answer(tmp_path: Path) -> None:
    code = (
        "import faulthandler, signal\n"
        "faulthandler.register(signal.SIGUSR1)\n"
        "faulthandler.dump_traceback_later(4)\n"
        # In place of a disk: `posix_spawn` waits in D until its child has begun, and this child
        # first waits for somebody to write into a pipe with a name.
        "import os\nos.mkfifo('pipe')\nos.posix_spawn('/', ['/'], {}, "
        "file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'pipe', 0, 0)])"
    )
    with (tmp_path / "stderr").open("w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code], cwd=tmp_path, stderr=stderr, start_new_session=True
        )
        try:
            wait_until(lambda: "State:\tD" in Path(f"/proc/{process.pid}/status").read_text())
            os.kill(process.pid, signal.SIGUSR1)
            wait_until(lambda: "Timeout" in (tmp_path / "stderr").read_text())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # The signal came seconds earlier. An answer to it would stand first, without "Timeout".
    assert (tmp_path / "stderr").read_text().startswith("Timeout")


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
