"""Lesson 07: what its judges say of recorded evidence, and what its notebook shows."""

from __future__ import annotations

import multiprocessing
import os
import re
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

import psutil
import pytest
from answers.lesson_07 import RIGHT_ANSWERS, WRONG_FIXES
from cells import answer_in, source
from nbformat import NotebookNode
from torch.utils.data import DataLoader, Dataset, Subset

from dltutor import observe
from dltutor.failures.kit.contract import load
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_07 import fix, transfer
from dltutor.lessons.lesson_07.fix import Epochs
from dltutor.lessons.lesson_07.material import CLIPS, LETTERS, Clips, Server, marked
from dltutor.lessons.lesson_07.transfer import Epoch, forked_half_way
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "07-the-loop-that-never-starts.ipynb"
FINISHED = Ending("finished", 6)
HUNG = Ending("hung", 6, stood="W0 was at a.py, line 3.")


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
        ({"run": HUNG, "samples": 0}, "W0 was at a.py, line 3. Who works for what"),
        ({"run": HUNG, "samples": 0, "main_started": True}, "Main had started a thread before"),
        ({"run": HUNG, "samples": 28}, "its workers did not end"),
        ({"run": HUNG, "samples": 14}, "W0 was at a.py, line 3. Who works for what"),
        ({"run": HUNG, "samples": 8, "apart": 2}, "W0 was at a.py, line 3. Who works for what"),
        ({"wrong": 3}, "3 of 28 pairs are not what the files held"),
        ({"workers": 0, "wrong": 3}, "Without workers, 3 of 28"),
        ({"workers": 4, "run": HUNG, "samples": 0}, "With 4 workers under fork, the run was"),
        ({"more": 24}, "24 reading threads were started after a worker's first pair, for 28"),
        ({"more": 2, "ended": 1}, "2 reading threads were started after a worker's first pair"),
        ({"changed": ("a.pt",)}, "`a.pt` was changed, added or removed"),
        ({"opened": 0}, "opened none of their files in a worker"),
        ({"workers": 4, "apart": 1}, "With 4 workers under fork, image and mask"),
        (
            {"run": Ending("raised", 6, raised_in_worker="TimeoutError", error="`TimeoutError`.")},
            "`TimeoutError`. Who works for what",
        ),
        ({"run": Ending("worker died", 6, fates="W0 killed by SIGKILL")}, "W0 killed by SIGKILL"),
    ],
)
def test_what_is_wrong_with_pairs_is_told(differs: dict[str, Any], told: str) -> None:
    result = told_of_fix(**differs)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# 07.transfer


WHOLE = ((6, 0, 0), (0, 6, 0))
HALF_WAY = (Epoch("half-way", FINISHED, labels=WHOLE),) * 2
AT_A_STEP = Epoch("in `with self.lock:`", FINISHED, labels=((0, 12, 0),))


def told_of_transfer(*epochs: Epoch) -> Result:
    return verdict(lambda: transfer.judge(epochs))


def test_labels_that_belong_together_at_every_fork_are_correct() -> None:
    result = told_of_transfer(*HALF_WAY, AT_A_STEP)
    assert result.outcome is Outcome.CORRECT
    assert "12 of 12 clips arrive in every epoch" in result.text


KEY_ERROR = Ending("raised", 4, raised_in_worker="KeyError", failed_worker=1, error="`KeyError`.")


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        (Epoch("half-way", HUNG), "W0 was at a.py, line 3. Which thread would let it"),
        (Epoch("half-way", replace(HUNG, stood="")), "half-way, the run did not end within 6 s"),
        (Epoch("half-way", KEY_ERROR), "was half-way, W1 raises: `KeyError`. In what state"),
        (Epoch("half-way", FINISHED, "the clips [0] come."), "half-way, the clips [0] come."),
        (replace(AT_A_STEP, run=HUNG), "refresh was in `with self.lock:`, the run was stopped"),
        (replace(AT_A_STEP, labels=((3, 9, 0),)), "W0 has 12 labels: 3 of before the"),
        (replace(AT_A_STEP, labels=((0, 11, 1),)), "11 of after it, 1 of neither. What does"),
    ],
)
def test_what_is_wrong_with_labels_is_told(epoch: Epoch, told: str) -> None:
    result = told_of_transfer(*HALF_WAY, epoch)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Clips, "hung. W0 and W1 were at"),
        (RIGHT_ANSWERS["07.transfer"]["one assignment"](), "finished. The labels of each worker"),
        (WRONG_FIXES["07.transfer"]["a made-up label"][0](), "3 of after it, 3 of neither."),
    ],
)
def test_a_class_of_clips_can_be_tried(answer: Any, told: str) -> None:
    assert told in forked_half_way(answer).text


def test_what_a_tried_class_registers_is_gone() -> None:
    answer: Any = WRONG_FIXES["07.transfer"]["main's lock kept"][0]()
    assert "Main forked twice, and did not come back" in forked_half_way(answer).text
    for _ in range(2):  # with its functions, the second of these would wait for ever
        child = multiprocessing.get_context("fork").Process()
        child.start()
        child.join()


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
    known: dict[str, Any] = {}
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


@pytest.mark.parametrize("wrap", [None, partial(Subset, indices=range(8))])
def test_the_lines_for_who_is_in_a_hurry_are_a_fix(wrap: Any) -> None:
    [text] = [cell.source for cell in read(NOTEBOOK).cells if cell.id == "card"]
    lines = text.partition("```python\n")[2].partition("```")[0]
    assert len(lines.strip().splitlines()) <= 10
    dataset = WithAPool(pairs_folder())
    wrapped = wrap(dataset) if wrap else dataset
    known: dict[str, Any] = {
        "ThreadPoolExecutor": ThreadPoolExecutor,
        "DataLoader": lambda _, **how: DataLoader(wrapped, multiprocessing_context="fork", **how),
        "dataset": dataset,
    }
    assert observe(load(wrapped, 2, "fork"), deadline=3).end == "hung"
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


@pytest.mark.parametrize(
    ("lock", "above"),
    [
        (threading.Lock, None),
        (threading.RLock, None),
        (threading.Condition, "__enter__"),
        (threading.Semaphore, "acquire"),
    ],
)
def test_the_line_above_yours_is_in_the_lock_that_the_card_names(lock: Any, above: Any) -> None:
    held = Held(lock())
    thread = threading.Thread(target=held.lock.acquire)  # it ends, and releases nothing
    thread.start()
    thread.join()
    known = imported(read(NOTEBOOK))
    exec(source("watched", read(NOTEBOOK)).partition("\nloader = ")[0], known)
    dump = observe(load(known["Watched"](held, 0.5), 1, "fork"), deadline=4).stderr
    functions = re.findall(r" in (\w+)$", dump, re.MULTILINE)
    yours = functions.index("__getitem__")
    assert (functions[yours - 1] if yours else None) == above


class Held(Dataset[int]):
    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        with self.lock:
            return index


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
            wait_until(lambda: waits_in_d(process.pid))
            os.kill(process.pid, signal.SIGUSR1)
            wait_until(lambda: "Timeout" in (tmp_path / "stderr").read_text())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # The signal came seconds earlier. An answer to it would stand first, without "Timeout".
    assert (tmp_path / "stderr").read_text().startswith("Timeout")


def waits_in_d(pid: int) -> bool:
    """Whether a process stays in D: any is there for a moment as it reads a file."""
    states = []
    for _ in range(10):
        states.append(psutil.Process(pid).status())
        time.sleep(0.05)
    return set(states) == {psutil.STATUS_DISK_SLEEP}


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
