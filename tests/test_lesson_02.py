"""Lesson 02: what its judges say of recorded evidence, and what its notebook shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from dltutor import observe
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_02 import exercises, fix, transfer
from dltutor.lessons.lesson_02 import material as lesson
from dltutor.lessons.lesson_02.fix import ORDER, Arrival
from dltutor.lessons.lesson_02.readings import FAULTS, Readings, WrongUnit
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "02-transforms-that-raise.ipynb"
FINISHED = Ending("finished", 6)
HUNG = Ending("hung", 6, stood="Main was at a.py, line 3.")


# 02.fix


def arrived(*, without: int = 0, **differs: Any) -> tuple[Arrival, ...]:
    """What a right answer brings; the third sample that raises differs."""
    right = [Arrival(i, FAULTS[i].kind.__name__ if i in FAULTS else "") for i in ORDER]
    right[7] = replace(right[7], **differs)
    return tuple(right[: len(right) - without])


def told_of_fix(run: fix.Run, **differs: Any) -> Result:
    runs = (fix.Run(2, FINISHED, arrived()), run)
    return verdict(lambda: fix.judge(fix.Evidence(runs=runs, **differs)))


def test_errors_that_all_arrive_are_correct() -> None:
    result = told_of_fix(fix.Run(0, FINISHED, arrived()))
    assert result.outcome is Outcome.CORRECT
    assert "19 errors arrive" in result.text and "38 healthy samples" in result.text


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (fix.Run(0, FINISHED, arrived(right=False)), "Without workers, sample 2617 raises a File"),
        (fix.Run(4, FINISHED, arrived(kind="")), "which `except FileNotFoundError`"),
        (fix.Run(4, FINISHED, arrived(right=False, kind="")), "gets a sample in its place"),
        (fix.Run(4, FINISHED, arrived(lacks=("the index",))), "lacks the index. What is in its"),
        (fix.Run(4, FINISHED, arrived(without=2)), "ends without a word: sample 5199 raises"),
        (fix.Run(4, FINISHED, arrived(without=1)), "ends without a word: sample 5198 is due"),
        (fix.Run(4, replace(HUNG, last_words="PicklingError: Can't"), arrived(without=2)), "What"),
        (fix.Run(4, HUNG, arrived(without=2)), "Main was at a.py, line 3. What does your class"),
        (fix.Run(4, HUNG, arrived()), "Main was at a.py, line 3. What does your class"),
        (fix.Run(4, FINISHED, (*arrived(), Arrival(-1, "", False))), "more comes than the 57"),
        (fix.Run(2, Ending("worker died", 6, fates="W0 exited")), "W0 exited"),
    ],
)
def test_what_is_wrong_with_errors_is_told(run: fix.Run, told: str) -> None:
    if run.arrivals and told.startswith("which"):
        run = replace(run, arrivals=arrived(kind="OSError", right=False))
    result = told_of_fix(run)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


@pytest.mark.parametrize(
    ("raised", "told"),
    [("NameError", "Your class raised `x` in `f`. Is that"), ("FileNotFoundError", "three gates")],
)
def test_what_the_answer_raised_itself_is_told_with_its_place(raised: str, told: str) -> None:
    wrong = arrived(kind="OSError", right=False, raised=raised, place="`x` in `f`.")
    text = told_of_fix(fix.Run(4, FINISHED, wrong)).text
    assert "which `except FileNotFoundError` does not catch. " in text and told in text


def test_a_wrong_length_and_a_lost_interrupt_are_told() -> None:
    run = fix.Run(0, FINISHED, arrived())
    assert "`len(located)` is 7." in told_of_fix(run, length=7).text
    assert "becomes `RuntimeError`" in told_of_fix(run, interrupt="`RuntimeError`").text


def test_each_word_of_a_fault_stands_in_its_text_alone() -> None:
    readings = Readings()
    for index, fault in FAULTS.items():
        with pytest.raises(Exception) as raised:
            readings[index]
        made = raised.value
        assert "w-" in str(made) and isinstance(made, fault.kind) != (fault.kind is RuntimeError)
        assert readings.paths[index].name not in str(made)
    assert {0, len(readings) - 1} <= {*ORDER} and 0 not in FAULTS


def test_some_types_cannot_travel_as_they_are() -> None:
    lost = set()
    for fault in FAULTS.values():
        try:
            ForkingPickler.dumps(kind := type(fault.make("w")))
            kind("a text")
        except Exception:
            assert fault.kind is RuntimeError
            lost.add(fault.what)
    assert len(lost) == 7, lost


# 02.transfer


GOOD = tuple(transfer.Run(workers, FINISHED, 22) for workers in (2, 0, 4))


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"length": 3}, "`len(dataset)` is 3."),
        ({"problem": "`words` is odd."}, "`words` is odd."),
        ({"touched": "the file `x` is new"}, "right, but the file `x` is new. Which of"),
        ({"runs": (transfer.Run(2, FINISHED, 22, "it is odd."),)}, "2 workers under fork, it is"),
        ({"runs": (transfer.Run(2, FINISHED, 7),)}, "7 samples arrive"),
        ({"runs": (transfer.Run(2, replace(HUNG, last_words="TypeError")),)}, "wrote `TypeError`"),
        ({"runs": (transfer.Run(0, HUNG),)}, "Without workers, the run did not end"),
    ],
)
def test_what_is_wrong_with_captions_is_told(differs: dict[str, Any], told: str) -> None:
    evidence = transfer.Evidence(**{"runs": GOOD, **differs})
    result = verdict(lambda: transfer.judge(evidence))
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


def test_captions_that_arrive_are_correct() -> None:
    result = verdict(lambda: transfer.judge(transfer.Evidence(runs=GOOD)))
    assert result.outcome is Outcome.CORRECT


# The notebook


def cells() -> dict[str, str]:
    return {cell.id: cell.source for cell in read(NOTEBOOK).cells}


def run_of(*ids: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    for each in ids:
        exec(cells()[each], names)
    return names


def test_step_four_is_the_one_that_raises() -> None:
    names = run_of("setup", "count", "steps")
    sample = names["counted"].paths[6].read_text()
    for step in names["steps"][: exercises._RAISES]:
        sample = step(sample)
    with pytest.raises(lesson.TooShort):
        names["steps"][exercises._RAISES](sample)
    assert len(names["steps"]) == len(exercises._STEPS) + 1


class SampleError(RuntimeError):
    """As in the card, at the top level of a module."""


class Raises(Dataset[Any]):
    def __init__(self, make: Callable[[], Exception]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        raise self.make()


def local_error() -> Exception:
    class Local(Exception):
        pass

    return Local("no array")


@pytest.mark.parametrize("make", [local_error, StopIteration, lambda: WrongUnit(unit="K")])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_fix_of_the_card_arrives_whatever_is_raised(
    make: Callable[[], Exception], workers: int
) -> None:
    [text] = re.findall(r"```python\n(.*?)```", cells()["card"], re.DOTALL)
    names: dict[str, Any] = {"torch": torch, "__name__": __name__}
    exec(text, names)
    names["SampleError"] = SampleError  # a test has no top level to put it in
    exec(text.partition("\n\n")[2], names)
    located = names["Located"](Raises(make))
    seen = observe(lesson.loader_of(located, workers), deadline=10)
    assert seen.end == "raised" and "sample 0: " in seen.raw
    assert seen.raised_in_worker in (None, "SampleError") and "SampleError: " in seen.raw


def unknown(word: str) -> None:
    raise local_error()


def test_the_four_messages_of_a_ragged_batch() -> None:
    messages = [row[2] for row in lesson.two_orders(torch.ones(3), torch.ones(5)).rows]
    assert [each.startswith("stack expects") for each in messages] == [True, True, True, False]
    assert messages[3] == "Trying to resize storage that is not resizable"


def test_a_hang_is_in_the_table_of_fates() -> None:
    [row] = lesson.fates([unknown]).rows
    assert row == ("unknown", "Local", "hung after 8 of 16")
