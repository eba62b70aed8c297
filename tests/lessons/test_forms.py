"""Check which forms of an answer are accepted, and that an unchanged starter is recognized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from cells import define
from small_datasets import Numbers

from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import (
    a_fixed_class,
    a_fixed_function,
    letter,
    shown,
    whole_number,
)
from dltutor.lessons.engine.outcomes import Outcome, Rejected, Result, correct, not_yet
from dltutor.lessons.engine.sources import same_class, same_function


def rejection(call: Callable[[], object]) -> Result:
    with pytest.raises(Rejected) as rejected:
        call()
    return rejected.value.result


# Letters and numbers, several runs, and an answer whose `repr` raises


@pytest.mark.parametrize(
    "typed", ["b", "B", " b ", "b)", "(b)", "[b]", "'b'", '"B"', "`b`", "b.", np.str_("b")]
)
def test_a_letter_is_taken_in_any_case_with_or_without_what_stands_around_it(typed: str) -> None:
    assert letter(typed) == "b"


@pytest.mark.parametrize("typed", ["", "ab", "b or c", 2, ["b"], {"b": 1}, None])
def test_what_is_not_one_letter_is_none(typed: Any) -> None:
    assert letter(typed) is None


@pytest.mark.parametrize(
    "typed",
    [9, np.int64(9), np.uint8(9), np.array(9), torch.tensor(9), 9.0, np.float32(9), "9", " 9 "],
)
def test_a_whole_number_is_taken_from_wherever_it_comes(typed: Any) -> None:
    assert whole_number(typed) == 9


@pytest.mark.parametrize(
    "typed",
    [
        9.5,
        float("nan"),
        float("inf"),
        True,
        np.True_,
        torch.tensor(True),
        "nine",
        "--9",
        None,
        [9],
        torch.ones(2),
    ],
)
def test_what_is_not_a_whole_number_is_none(typed: Any) -> None:
    assert whole_number(typed) is None


def test_of_several_runs_the_first_that_is_rejected_is_the_last() -> None:
    def judge(found: int) -> None:
        if found < 0:
            not_yet("negative")

    grader = by_runs(iter, judge, at_most=1)
    assert grader.gather([1, -1, 2]) == (1, -1)
    assert verdict(lambda: grader.judge((1, -1))).code == "negative"
    assert grader.judge((1, 2)) == correct()


def test_an_answer_whose_repr_raises_is_shown_by_its_type() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown(Mute()) == "an object of `Mute`, whose `repr` raises"


# A class as the answer


class Right(Numbers):
    """A class to hand in as an answer."""


def test_an_object_in_place_of_its_class_is_told_so() -> None:
    result = rejection(lambda: a_fixed_class(Right(), Numbers))
    assert result.outcome is Outcome.ERROR
    assert (result.code, result.fields) == ("an-object", {"kind": "Right"})


@pytest.mark.parametrize("answer", [3, "Right", lambda: Right])
def test_what_is_no_class_at_all_is_shown(answer: Any) -> None:
    assert rejection(lambda: a_fixed_class(answer, Numbers)).code == "not-a-class"


# Whether an answer is still the starter


STARTER = "    def f(self, x=1):\n        y = [x + 1 for _ in range(3)]\n        return sum(y)\n"


def a_class_of(body: str) -> type:
    made: type = define(f"class Made(Numbers):\n{body}", f"{hash(body)}", Numbers=Numbers)["Made"]
    return made


@pytest.mark.parametrize(
    "body",
    [
        STARTER,
        "    # a comment\n\n" + STARTER.replace("return sum(y)", "return sum(y)  # another"),
        STARTER.replace("x + 1", "x    +    1"),
        STARTER.replace("[x + 1", "[\n            x + 1"),
        STARTER.replace("x=1", "x: int = 1").replace("):\n", ") -> int:\n", 1),
        '    """What it is."""\n' + STARTER.replace("y = [", '"""And how."""\n        y = ['),
    ],
)
def test_comments_layout_docstrings_and_type_hints_do_not_make_another_class(body: str) -> None:
    assert same_class(a_class_of(STARTER), a_class_of(body))


@pytest.mark.parametrize(
    "body",
    [
        STARTER.replace("sum(y)", "sum(y) + 1"),
        STARTER.replace("sum", "max"),
        STARTER.replace("x + 1", "x + 2"),
        STARTER.replace("x=1", "x=2"),
        STARTER.replace("self, x=1", "self, *, x=1"),
        STARTER.replace("    def", "    @staticmethod\n    def"),
        STARTER + "    @staticmethod\n    def g():\n        return 1\n",
        STARTER + "    size = 3\n",
        STARTER + "    @property\n    def g(self):\n        return 1\n",
    ],
)
def test_every_change_that_does_something_makes_another_class(body: str) -> None:
    assert not same_class(a_class_of(STARTER), a_class_of(body))


def test_the_same_class_in_two_cells_is_told_by_its_last_definition() -> None:
    cell = f"class Made:\n{STARTER}\nOld = Made\nclass Made:\n{STARTER.replace('sum', 'max')}"
    names = define(cell, "twice")
    assert same_class(names["Old"], a_class_of(STARTER))
    assert not same_class(names["Made"], a_class_of(STARTER))


def test_a_class_of_which_no_source_is_known_is_no_starter() -> None:
    assert not same_class(type("Made", (), {}), a_class_of(STARTER))
    assert not same_class(int, a_class_of(STARTER))


def test_a_class_is_the_same_whether_or_not_its_own_cell_has_the_imports() -> None:
    body = "    def f(self):\n        return [math.floor(n) for n in range(3) if n]\n"
    starter = a_class_of(body)
    with_imports = define(f"import math\nclass Made:\n{body}", "with its imports")["Made"]
    assert same_class(starter, with_imports)


def a_function_of(code: str) -> Any:
    return define(code, f"{hash(code)}")["f"]


def test_a_function_is_the_starter_until_its_code_changes() -> None:
    starter = a_function_of("def f(loader):\n    return [b for b in loader]\n")
    same = a_function_of("def f(loader):  # mine\n    return [b for b in loader]\n")
    other = a_function_of("def f(loader):\n    return list(loader)\n")
    assert same_function(starter, same) and not same_function(starter, other)
    assert rejection(lambda: a_fixed_function(same, starter)).outcome is Outcome.NOT_ATTEMPTED
    assert rejection(lambda: a_fixed_function(Right, starter)).outcome is Outcome.ERROR
    assert a_fixed_function(other, starter) is other
    assert a_fixed_function(len, starter) is len
