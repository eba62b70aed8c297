"""Check the faults that lesson 02's check relies on, and the code and tables in its notebook."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cells import to_copy

from dltutor.lessons.engine import words
from dltutor.lessons.engine.checking import check
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_02 import helpers as lesson
from dltutor.lessons.lesson_02.fix import ORDER
from dltutor.lessons.lesson_02.readings import FAULTS, Readings
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "02-transforms-that-raise.ipynb"


def test_each_word_of_a_fault_stands_in_its_text_alone() -> None:
    readings = Readings()
    for index, fault in FAULTS.items():
        with pytest.raises(Exception) as raised:
            readings[index]
        made = raised.value
        assert "w-" in str(made) and isinstance(made, fault.kind) != (fault.kind is RuntimeError)
        assert readings.paths[index].name not in str(made)
    assert {0, len(readings) - 1} <= {*ORDER} and 0 not in FAULTS


# The notebook's code and tables


def cells() -> dict[str, str]:
    return {cell.id: cell.source for cell in read(NOTEBOOK).cells}


def run_of(*ids: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    for each in ids:
        exec(cells()[each], names)
    return names


RAISES, STEPS = words.lesson("02")["diagnose"]["answer"], 6


def test_step_four_is_the_one_that_raises() -> None:
    names = run_of("setup", "count", "steps")
    sample = names["counted"].paths[6].read_text()
    for step in names["steps"][:RAISES]:
        sample = step(sample)
    with pytest.raises(lesson.TooShort):
        names["steps"][RAISES](sample)
    assert len(names["steps"]) == STEPS


class SampleError(RuntimeError):
    """The notebook's class of this name, at the top level of a module, where pickle finds it."""


def test_the_fix_in_on_call_passes_the_check() -> None:
    [text] = to_copy("on-call-wrap", read(NOTEBOOK))
    names: dict[str, Any] = {"torch": torch, "__name__": __name__}
    exec(text, names)
    names["SampleError"] = SampleError  # pickle can't find the class that `exec` defined
    result = check("02.fix", names["Located"])
    assert (result.outcome, result.code) == (Outcome.CORRECT, "correct-one-type")


def unknown(word: str) -> None:
    class Local(Exception):
        pass

    raise Local("no array")


def test_the_four_messages_of_a_ragged_batch() -> None:
    messages = [row[2] for row in lesson.two_orders(torch.ones(3), torch.ones(5)).rows]
    assert [each.startswith("stack expects") for each in messages] == [True, True, True, False]
    assert messages[3] == "Trying to resize storage that is not resizable"


def test_a_hang_is_in_the_table_of_fates() -> None:
    [row] = lesson.fates([unknown]).rows
    assert row == ("unknown", "Local", "hung after 8 of 16")
