"""Check lesson 07's judges on made-up evidence, and the code in its notebook."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from answers.lesson_07 import RIGHT_ANSWERS, WRONG_FIXES
from cells import run_copied, source
from torch.utils.data import DataLoader, Dataset, Subset

from dltutor import observe
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.failures.tools.contract import load
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_07 import fix, transfer
from dltutor.lessons.lesson_07.fix import Epochs
from dltutor.lessons.lesson_07.helpers import LETTERS, Clips, marked
from dltutor.lessons.lesson_07.transfer import Epoch
from notebooks import NOTEBOOKS, read

NOTEBOOK = read(NOTEBOOKS / "07-the-loop-that-never-starts.ipynb")
HUNG = Ending("hung", 6, stood="W0 was at a.py, line 3.")
TIMED_OUT = Ending("raised", 6, raised_in_worker="TimeoutError", error="`TimeoutError`.")
DIED = Ending("worker died", 6, fates="W0 killed by SIGKILL")


@pytest.mark.parametrize(
    ("epochs", "code"),
    [
        (Epochs(2, HUNG, 0), "waits"),
        (Epochs(2, HUNG, 14), "waits"),  # 14 samples are one of two epochs
        (Epochs(2, HUNG, 8, apart=2), "waits"),
        (Epochs(4, HUNG, 0, main_started=True), "waits-main-started"),
        (Epochs(4, HUNG, 14), "never-ends"),
        (Epochs(2, TIMED_OUT, 0), "timed-out"),
        (Epochs(2, DIED, 0), "worker-died"),
    ],
)
def test_how_a_run_of_pairs_ended_is_judged(epochs: Epochs, code: str) -> None:
    result = verdict(lambda: fix.GRADER.judge((epochs,)))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


@pytest.mark.parametrize(
    ("run", "code"),
    [(HUNG, "waits"), (replace(HUNG, stood=""), "hung"), (DIED, "worker-died")],
)
def test_how_a_run_of_clips_ended_is_judged(run: Ending, code: str) -> None:
    result = verdict(lambda: transfer.GRADER.judge((Epoch("with workers forked", run),)))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Clips, "waits"),
        (RIGHT_ANSWERS["07.transfer"]["one assignment"], "correct-half-way"),
        (WRONG_FIXES["07.transfer"]["a made-up label"][0], "mixed-labels"),
    ],
)
def test_a_class_of_clips_can_be_tried(answer: Any, code: str) -> None:
    assert transfer.tried_half_way(answer).code == code


# The notebook


def setup() -> dict[str, Any]:
    """Return what the setup cell imports, except from dltutor."""
    known: dict[str, Any] = {}
    lines = source("setup", NOTEBOOK).splitlines()
    exec("\n".join(line for line in lines if "dltutor" not in line), known)
    return known


def test_each_line_that_the_notebook_asks_about_has_its_letter() -> None:
    shown = marked().data.splitlines()
    for letter, text in LETTERS.items():
        [line] = [line for line in shown if line.endswith(f"# {letter}")]
        assert text in line


@pytest.mark.parametrize("wrap", [None, partial(Subset, indices=range(8))])
def test_the_code_to_copy_on_call_fixes_a_dataset_with_an_executor(wrap: Any) -> None:
    dataset = WithAPool(pairs_folder())
    wrapped = wrap(dataset) if wrap else dataset
    known = run_copied(
        "07",
        "on-call",
        ThreadPoolExecutor=ThreadPoolExecutor,
        DataLoader=lambda _, **how: DataLoader(wrapped, multiprocessing_context="fork", **how),
        dataset=dataset,
    )
    assert observe(known["loader"]).end == "finished"


class WithAPool(Pairs):
    """Pairs whose executor is also called `pool`, as in the notebook's code to copy."""

    @property
    def pool(self) -> ThreadPoolExecutor:
        return self.thread

    @pool.setter
    def pool(self, pool: ThreadPoolExecutor) -> None:
        self.thread = pool


def watched(dataset: Dataset[Any], seconds: float, deadline: float) -> str:
    """Wrap a dataset in the notebook's `Watched`, and return what a worker writes to stderr."""
    known = setup()
    exec(source("watched", NOTEBOOK).partition("\nloader = ")[0], known)
    return observe(load(known["Watched"](dataset, seconds), 1, "fork"), deadline=deadline).stderr


def test_watched_prints_a_stack_only_for_a_sample_that_takes_too_long() -> None:
    assert "Timeout" not in watched(Naps(0.2, 8), 0.8, 20)  # eight samples take 1.6 s together
    slow = watched(Naps(1.2, 1), 0.4, 20)
    assert "Timeout" in slow
    assert "in __getitem__" in slow


@pytest.mark.parametrize(
    ("lock", "above"),
    [
        (threading.Lock, None),
        (threading.Condition, "__enter__"),
        (threading.Semaphore, "acquire"),
    ],
)
def test_the_line_above_yours_is_in_a_method_that_on_call_names(lock: Any, above: Any) -> None:
    held = Held(lock())
    thread = threading.Thread(target=held.lock.acquire)  # ends without releasing the lock
    thread.start()
    thread.join()
    functions = re.findall(r" in (\w+)$", watched(held, 0.3, 3), re.MULTILINE)
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
    def __init__(self, seconds: float, length: int) -> None:
        self.seconds, self.length = seconds, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds)
        return index
