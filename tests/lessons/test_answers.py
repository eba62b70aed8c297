"""Check that `check` accepts every right answer in tests/answers, and rejects every wrong one.

A wrong answer must get the code that's listed with it. Every exercise must have right and wrong
answers there, unless it's a question with options, and its lesson's notebook must ask it once. The
last rule doesn't hold for lesson 14, whose notebook draws its exercises at random.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from answers import RightAnswers, WrongFixes, made
from cells import answer_in, source
from portable import code_cells
from tag_promises import tags
from torch.utils.data import DataLoader

from dltutor.lessons.engine import words
from dltutor.lessons.engine.checking import check, exercises, verdict
from dltutor.lessons.engine.outcomes import Outcome, Result
from notebooks import read, twins

MODULES = sorted(path.stem for path in (Path(__file__).parents[1] / "answers").glob("lesson_*.py"))


def listed(name: str) -> dict[str, Any]:
    """Merge the dicts that the modules in tests/answers have under this name, keyed by exercise."""
    found: dict[str, Any] = {}
    for module in MODULES:
        for exercise, answers in getattr(import_module(f"answers.{module}"), name).items():
            assert exercise not in found, f"{exercise} is listed twice"
            found[exercise] = answers
    return found


WRONG_FIXES: WrongFixes = listed("WRONG_FIXES")
RIGHT_ANSWERS: RightAnswers = listed("RIGHT_ANSWERS")


def first_right(exercise: str) -> Any:
    return made(next(iter(RIGHT_ANSWERS[exercise].values())))


def table(exercise: str) -> dict[str, Any]:
    """Return an exercise's table from its lesson's `exercises.toml`."""
    found: dict[str, Any] = words.lesson(exercise[:2])[exercise[3:]]
    return found


QUESTIONS = [name for name in exercises() if "options" in table(name)]
OTHERS = [name for name in exercises() if name not in QUESTIONS]


def checks() -> Iterator[tuple[Path, str, str, str]]:
    """Yield each call of `check` in the solved notebooks.

    Yields:
        The notebook's path, the id of the last starter cell above the call (or ""), the exercise,
        and the source of the answer.
    """
    for twin in twins():
        starter = ""
        for cell in code_cells(read(twin)):
            if "starter" in tags(cell):
                starter = cell.id
            for found in re.findall(r"""\bcheck\("(\d\d\.\w+)", (.+)\)""", cell.source):
                yield twin, starter, *found


CHECKS = list(checks())


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


def graded(exercise: str, answer: Any) -> Result:
    """Grade an answer in this process, and check that the result has a message.

    Use this only if the grader rejects the answer, or judges it, without running it.
    """
    grader = exercises()[exercise].grader
    result = verdict(lambda: grader.judge(grader.gather(grader.look(answer))))
    assert replace(result, exercise=exercise).text
    return result


def test_every_exercise_is_asked_once_in_its_own_lesson() -> None:
    asked = Counter((exercise, twin.name[:2]) for twin, _, exercise, _ in CHECKS)
    assert asked == Counter(
        (name, each.lesson) for name, each in exercises().items() if each.lesson != "14"
    )  # lesson 14 draws its incidents at random


def test_every_exercise_has_its_right_and_wrong_answers_listed() -> None:
    assert set(WRONG_FIXES) == set(RIGHT_ANSWERS) == set(OTHERS)


@pytest.mark.parametrize("exercise", QUESTIONS)
def test_each_option_of_a_question_has_its_code_and_one_is_correct(exercise: str) -> None:
    question = table(exercise)
    for option in question["options"]:
        result = graded(exercise, option)
        assert result.code == option
        right = option == str(question["answer"])
        assert result.outcome is (Outcome.CORRECT if right else Outcome.NOT_YET)
    if isinstance(question["answer"], int):
        assert graded(exercise, "one").code == "not-a-number"
        assert graded(exercise, -1).code == "other-number"
    else:
        assert graded(exercise, "neither").code == "no-option"


@pytest.mark.parametrize("exercise", exercises())
@pytest.mark.parametrize("unset", [..., None], ids=str)
def test_an_unset_answer_is_not_attempted(exercise: str, unset: Any) -> None:
    assert graded(exercise, unset).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("twin", "starter", "exercise", "name"), [pytest.param(*each, id=each[2]) for each in CHECKS]
)
def test_the_starter_in_the_notebook_is_not_attempted(
    twin: Path, starter: str, exercise: str, name: str
) -> None:
    notebook = read(twin)
    known = answer_in(notebook, "setup")
    magic, _, text = source(starter, notebook).partition("\n")
    if magic.startswith("%%writefile"):
        Path(magic.split()[1].format(**known)).write_text(text)
    else:
        known = answer_in(notebook, starter, **known)
    assert graded(exercise, eval(name, known)).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    "exercise", [name for name in OTHERS if isinstance(first_right(name), type)]
)
def test_a_loader_in_place_of_the_class_is_named(exercise: str) -> None:
    # Without workers, most failures don't happen, so learners may hand in a loader without any.
    for loader in (DataLoader, DataLoader([1])):  # type: ignore[arg-type]
        assert graded(exercise, loader).code == "a-loader"


# Answers that need a run are in the thorough tier, because each solved notebook already checks one.
@every(RIGHT_ANSWERS, lambda exercise, _: bool(exercises()[exercise].grader.at_most))
def test_a_right_answer_is_correct(
    exercise: str, name: str, nothing_left_behind: Callable[..., None]
) -> None:
    result = check(exercise, made(RIGHT_ANSWERS[exercise][name]))
    assert result.outcome.value == "Correct", result.text


# All but the first wrong answer of each exercise are in the thorough tier, because there are more
# than 300 of them.
@every(WRONG_FIXES, lambda _, number: number >= 1)
def test_a_wrong_fix_gets_the_code_of_what_is_wrong(exercise: str, name: str) -> None:
    answer, code = WRONG_FIXES[exercise][name]
    result = check(exercise, made(answer))
    assert result.outcome.value in ("Not yet", "Error in your code"), result.text
    codes = (code,) if isinstance(code, str) else code  # timing may decide which code it gets
    inner = result.fields.get("finding")  # the code of a message that this message quotes
    assert {result.code, f"{result.code}: {inner}"} & {*codes}, result.text
