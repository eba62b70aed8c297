"""Check the faults that lesson 02's check relies on, and the code in its notebook."""

from __future__ import annotations

import pytest
from cells import answer_in

from dltutor.lessons.engine import words
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


# The notebook's code


def test_step_four_is_the_one_that_raises() -> None:
    names = answer_in(read(NOTEBOOK), "setup", "count", "steps", __name__=__name__)
    raises, steps = words.lesson("02")["diagnose"]["answer"], names["steps"]
    sample = names["counted"].paths[6].read_text()
    for step in steps[:raises]:
        sample = step(sample)
    with pytest.raises(lesson.TooShort):
        steps[raises](sample)
    assert len(steps) == 6
