"""Lesson 07: what its judges say of recorded evidence, and what its notebook shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cells import answer_in, source

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


GOOD = tuple(Epochs(workers, FINISHED, 28, 0, 4, 28, 0) for workers in (2, 0, 4))


def told_of_fix(
    workers: int = 2, pickling: str = "", fine: bool | None = None, **run: Any
) -> Result:
    runs = tuple(replace(each, **run) if each.workers == workers else each for each in GOOD)
    return verdict(lambda: fix.judge(fix.Evidence(runs, pickling, fine)))


def test_pairs_that_all_come_and_are_read_at_the_same_time_are_correct() -> None:
    result = told_of_fix()
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("14 of 14 pairs arrive in 2 epochs")


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"run": HUNG, "samples": 0}, "W0 stood at a.py, line 3. Who works for what"),
        ({"run": HUNG, "samples": 0, "fine": True}, "Without main's `dataset[0]` before"),
        ({"run": HUNG, "samples": 0, "pickling": "__getstate__"}, "`__getstate__` was not called"),
        ({"run": HUNG, "samples": 14}, "its workers did not end"),
        ({"wrong": 3}, "3 of 28 pairs are not what the files hold"),
        ({"workers": 0, "wrong": 3}, "With 0 workers, 3 of 28"),
        ({"workers": 4, "run": HUNG, "samples": 0}, "With 4 workers, the epoch was stopped"),
        ({"threads": 28}, "at least one for each pair"),
        ({"opened": 0}, "no worker opened any of their files"),
        ({"apart": 1, "threads": 0}, "No worker started a thread"),
        ({"workers": 4, "apart": 1}, "With 4 workers, all pairs come, and image and mask are"),
        (
            {"run": Ending("raised", 6, raised_in_worker="TimeoutError", failed_worker=1)},
            "`TimeoutError` in W1",
        ),
        ({"run": Ending("worker died", 6, fates="W0 killed by SIGKILL")}, "W0 killed by SIGKILL"),
    ],
)
def test_what_is_wrong_with_pairs_is_told(differs: dict[str, Any], told: str) -> None:
    result = told_of_fix(**differs)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


# 07.transfer


HALF_WAY = (Epoch("", FINISHED, ""),) * 2
AT_A_LINE = Epoch("`refresh` had come to line 3, `with self.lock:`", FINISHED, "")


def told_of_transfer(*epochs: Epoch, **evidence: Any) -> Result:
    return verdict(lambda: transfer.judge(transfer.Evidence(epochs, **evidence)))


def test_labels_that_belong_together_at_every_fork_are_correct() -> None:
    result = told_of_transfer(*HALF_WAY, AT_A_LINE)
    assert result.outcome is Outcome.CORRECT
    assert "12 of 12 clips arrive in 3 epochs" in result.text


KEY_ERROR = Ending("raised", 4, raised_in_worker="KeyError", failed_worker=1, error="`KeyError`.")


@pytest.mark.parametrize(
    ("epochs", "evidence", "told"),
    [
        (HALF_WAY, {"held_up": True}, "Main hung at a fork"),
        ((Epoch("", HUNG, ""),), {}, "W0 stood at a.py, line 3. Which thread would let them"),
        ((Epoch("", HUNG, ""),), {"reentrant": True}, "An RLock lets a thread in"),
        ((Epoch("", HUNG, ""),), {"pickling": "__reduce__"}, "`__reduce__` was not called"),
        ((Epoch("", KEY_ERROR, ""),), {}, "W1 goes on, and finds a label missing: `KeyError`."),
        ((Epoch("", KEY_ERROR, ""),), {"across": "lock"}, "The lock `lock` holds across processes"),
        ((HALF_WAY[0], Epoch("", FINISHED, "W0: old.")), {}, "In epoch 1, W0: old."),
        (HALF_WAY, {"main": None}, "in main the lock is still held"),
        (HALF_WAY, {"main": 12}, "main still has 12 of 12 labels"),
        (HALF_WAY, {"reads": 5}, "read the whole list 5 times"),
        ((*HALF_WAY, replace(AT_A_LINE, run=HUNG)), {}, "forked when `refresh` had come to line 3"),
        ((*HALF_WAY, replace(AT_A_LINE, wrong="W0: old.")), {}, "main's labels are not whole"),
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
    imports = source("setup", notebook).splitlines()
    known: dict[str, Any] = {}
    exec("\n".join(line for line in imports if line.startswith(("import", "from torch"))), known)
    known |= answer_in(notebook, cell, **known)
    assert check(exercise, known[name]).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["07.predict", "07.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_each_line_that_is_asked_about_has_its_letter_in_the_code() -> None:
    shown = marked().data.splitlines()
    for letter, text in LETTERS.items():
        assert [line for line in shown if line.endswith(f"# {letter}")], letter
        assert all(text in line for line in shown if line.endswith(f"# {letter}"))
