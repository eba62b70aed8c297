"""Lesson 02: what its judge makes of rare evidence, and what its notebook shows."""

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
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_02 import exercises, fix
from dltutor.lessons.lesson_02 import material as lesson
from dltutor.lessons.lesson_02.fix import ORDER, Arrival
from dltutor.lessons.lesson_02.readings import FAULTS, Readings, WrongUnit
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "02-transforms-that-raise.ipynb"
FINISHED = Ending("finished", 6)
HUNG = Ending("hung", 6, stood="Main was at a.py, line 3.")
UNSENT = replace(HUNG, last_words="TypeError: cannot pickle 'generator' object")


# 02.fix


def arrived(*, without: int = 0) -> tuple[Arrival, ...]:
    """What a right answer delivers."""
    right = [Arrival(i, FAULTS[i].kind.__name__ if i in FAULTS else "") for i in ORDER]
    return tuple(right[: len(right) - without])


@pytest.mark.parametrize(
    ("ending", "arrivals", "code"),
    [
        (FINISHED, (Arrival(ORDER[0], "TypeError", right=False),), "healthy-lost"),
        (FINISHED, (*arrived(), Arrival(-1, "", right=False)), "too-many"),
        (FINISHED, arrived(without=1), "ends-early-healthy"),
        (UNSENT, arrived(without=1), "healthy-not-pickled"),
        (HUNG, arrived(), "hung"),
    ],
)
def test_what_no_answer_of_the_corpus_shows_is_judged_by_what_was_seen(
    ending: Ending, arrivals: tuple[Arrival, ...], code: str
) -> None:
    evidence = fix.Evidence(runs=(fix.Run(4, ending, arrivals),))
    result = verdict(lambda: fix.judge(evidence))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


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
    assert len(names["steps"]) == exercises._STEPS


class SampleError(RuntimeError):
    """As in On call, at the top level of a module."""


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
def test_with_the_fix_in_on_call_whatever_is_raised_arrives(
    make: Callable[[], Exception], workers: int
) -> None:
    [text] = re.findall(r"```python\n(.*?)```", cells()["on-call-wrap"], re.DOTALL)
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
