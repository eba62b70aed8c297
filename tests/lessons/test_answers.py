"""Check that `check` gives every answer in tests/answers the outcome that's listed with it.

Every exercise must have right and wrong answers there, and its lesson's notebook must ask it once.
In lesson 14, the notebook draws its exercises at random.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from answers import OtherOutcomes, RightAnswers, WrongFixes
from portable import code_cells

from dltutor.lessons.engine.checking import check, exercises
from notebooks import read, twins

MODULES = sorted(path.stem for path in (Path(__file__).parents[1] / "answers").glob("lesson_*.py"))


def listed(name: str) -> dict[str, Any]:
    """Return what all modules in tests/answers have under this name, by exercise."""
    found: dict[str, Any] = {}
    for module in MODULES:
        for exercise, answers in getattr(import_module(f"answers.{module}"), name, {}).items():
            assert exercise not in found, f"{exercise} is listed twice"
            found[exercise] = answers
    return found


WRONG_FIXES: WrongFixes = listed("WRONG_FIXES")
RIGHT_ANSWERS: RightAnswers = listed("RIGHT_ANSWERS")
OTHER_OUTCOMES: OtherOutcomes = listed("OTHER_OUTCOMES")


def every(answers: dict[str, Any], is_thorough: Callable[[str, int], bool]) -> pytest.MarkDecorator:
    """Parametrize a test by exercise and answer.

    Args:
        answers: The answers of each exercise.
        is_thorough: A function that returns whether an answer belongs to the thorough tier. Its
            arguments are the exercise and the answer's position in that exercise, from 0.
    """
    return pytest.mark.parametrize(
        ("exercise", "name"),
        [
            pytest.param(
                exercise, name, marks=pytest.mark.thorough if is_thorough(exercise, number) else ()
            )
            for exercise, names in answers.items()
            for number, name in enumerate(names)
        ],
    )


def test_every_exercise_is_asked_once_in_its_own_lesson() -> None:
    asked = Counter(
        (name, twin.name[:2])
        for twin in twins()
        for cell in code_cells(read(twin))
        for name in re.findall(r"""\bcheck\(\s*["']([^"']+)["']""", cell.source)
    )
    by_name = {name: each for name, each in exercises().items() if each.lesson != "14"}
    assert asked == Counter(
        (name, each.lesson) for name, each in by_name.items()
    )  # lesson 14 draws its incidents at random


def test_every_exercise_has_its_right_and_wrong_answers_listed() -> None:
    assert set(WRONG_FIXES) == set(RIGHT_ANSWERS) == set(exercises())


# Answers that need a run are in the thorough tier, because each solved notebook already checks one.
@every(RIGHT_ANSWERS, lambda exercise, _: bool(exercises()[exercise].grader.at_most))
def test_a_right_answer_is_correct(
    exercise: str, name: str, nothing_left_behind: Callable[..., None]
) -> None:
    result = check(exercise, RIGHT_ANSWERS[exercise][name]())
    assert result.outcome.value == "Correct", result.text


@every(WRONG_FIXES, lambda _, number: number >= 1)  # there are 600 wrong answers
def test_a_wrong_fix_gets_the_code_of_what_is_wrong(exercise: str, name: str) -> None:
    make, code = WRONG_FIXES[exercise][name]
    result = check(exercise, make())
    assert result.outcome.value in ("Not yet", "Error in your code"), result.text
    codes = (code,) if isinstance(code, str) else code  # a slow machine may get a second code
    assert result.code in codes, result.text


@every(OTHER_OUTCOMES, lambda _, number: number >= 1)  # the first is usually the starter
def test_an_answer_with_another_outcome_gets_that(exercise: str, name: str) -> None:
    make, outcome, code = OTHER_OUTCOMES[exercise][name]
    result = check(exercise, make())
    assert (result.outcome.value, result.code) == (outcome, code), result.text
