"""Every exercise is asked, and each usual wrong fix listed in answers/ gets its own answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from answers import WrongFixes
from portable import code_cells

from dltutor.lessons import EXERCISES, Result, check
from notebooks import read, twins

MODULES = sorted(path.stem for path in (Path(__file__).parent / "answers").glob("lesson_*.py"))


def listed() -> WrongFixes:
    fixes: WrongFixes = {}
    for module in MODULES:
        for exercise, wrong in import_module(f"answers.{module}").WRONG_FIXES.items():
            assert exercise not in fixes, f"{exercise} is listed twice"
            fixes[exercise] = wrong
    return fixes


WRONG_FIXES = listed()

every_exercise = pytest.mark.parametrize("exercise", sorted(WRONG_FIXES))
every_wrong_fix = pytest.mark.parametrize(
    ("exercise", "fix"),
    [(exercise, fix) for exercise, fixes in WRONG_FIXES.items() for fix in fixes],
)


@cache
def result_of(exercise: str, fix: str) -> Result:
    make: Callable[[], object] = WRONG_FIXES[exercise][fix][0]
    return check(exercise, make())


def test_every_exercise_is_asked_once_in_its_own_lesson() -> None:
    asked = Counter(
        (name, twin.name[:2])
        for twin in twins()
        for cell in code_cells(read(twin))
        for name in re.findall(r"""\bcheck\(\s*["']([^"']+)["']""", cell.source)
    )
    assert asked == Counter((name, EXERCISES[name].lesson) for name in EXERCISES)


def test_every_exercise_has_its_wrong_fixes_listed() -> None:
    assert set(WRONG_FIXES) == set(EXERCISES)


@every_wrong_fix
def test_a_wrong_fix_is_not_correct_and_is_answered_by_name(exercise: str, fix: str) -> None:
    result = result_of(exercise, fix)
    assert result.outcome.value in ("Not yet", "Error in your code"), result.text
    assert WRONG_FIXES[exercise][fix][1] in result.text


@every_exercise
def test_no_two_wrong_fixes_get_the_same_answer(exercise: str) -> None:
    fix_by_text: dict[str, str] = {}
    for fix in WRONG_FIXES[exercise]:
        text = result_of(exercise, fix).text
        assert text not in fix_by_text, f"{fix!r} and {fix_by_text[text]!r} are told the same"
        fix_by_text[text] = fix
