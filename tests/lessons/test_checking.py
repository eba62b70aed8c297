"""Check which outcome `check` returns, and what `hint` and `progress` show.

This includes answers and graders that raise an exception.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_exercise import HINTS, own_exercise
from small_datasets import Numbers, raise_error
from test_answers import OTHERS

from dltutor.lessons.engine import endings
from dltutor.lessons.engine.checking import (
    CheckFailed,
    check,
    exercises,
    hint,
    progress,
    verdict,
)
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.outcomes import Outcome, Result, correct, error_in_your_code, not_yet
from dltutor.observation.time_limits import deadline


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define an exercise `00.own`, whose right answer is 3."""

    def judge(answer: Any) -> Result:
        if answer == "rejected":
            error_in_your_code("no-text")
        return correct() if answer == 3 else not_yet("no")

    own_exercise(monkeypatch, Grader(lambda answer: answer, judge), no="No.", **{"no-text": "text"})


# What check() returns.


def test_the_result_is_what_the_grader_says() -> None:
    assert check("00.own", 3) == Result(Outcome.CORRECT, "correct", {}, "00.own")
    assert str(check("00.own", 4)) == "Not yet. No."
    assert str(check("00.own", "rejected")) == "Error in your code: text"


@pytest.mark.parametrize("name", ["01.fxi", "", None, ["01.fix"], Numbers])
def test_an_exercise_that_is_not_there_is_named_with_those_that_are(name: Any) -> None:
    result = check(name, 3)
    assert result.outcome is Outcome.COULD_NOT_CHECK
    assert "there's no exercise" in result.text and "00.fix" in result.text
    assert "there's no exercise" in str(hint(name))


def test_under_strict_all_but_correct_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLTUTOR_STRICT", "1")
    assert check("00.own", 3).outcome is Outcome.CORRECT
    with pytest.raises(CheckFailed, match=r"Not yet\. No"):
        check("00.own", 4)
    with pytest.raises(CheckFailed, match="there's no exercise"):
        check("01.fxi", True)


def test_where_nothing_can_be_forked_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork")
    result = check("00.own", 3)
    assert result.outcome is Outcome.COULD_NOT_CHECK
    assert result.code == "no-fork"


# Exceptions that come from the answer or from the grader.


LESSON = Path(endings.__file__).parents[1] / "lesson_99" / "fix.py"
GRADER = """
def loop(loader):
    for batch in loader:
        {line}

def grade():
    endings.check_ending(endings.run_loader(dataset, loop, workers=0, within=5))
    return correct()
"""


def told_of_a_run(line: str, dataset: Any) -> Result:
    """Return the result of a grader whose loop runs `line` for each batch of a dataset."""
    names = {"dataset": dataset, "endings": endings, "correct": correct, "not_yet": not_yet}
    exec(compile(GRADER.format(line=line), str(LESSON), "exec"), names)
    return verdict(names["grade"])


def test_what_a_graders_loop_raises_is_no_error_of_the_answer() -> None:
    assert told_of_a_run("pass", Numbers()) == correct()
    result = told_of_a_run("batch.no_such_thing", Numbers())
    assert result.outcome is Outcome.COULD_NOT_CHECK
    assert result.code == "our-mistake" and "no_such_thing" in result.text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("loader.dataset.__len__(batch)", "__len__() takes 1 positional argument but 2 were given"),
        ("(lambda loader: 0)()", "missing 1 required positional argument: 'loader'"),
    ],
)
def test_a_function_that_takes_other_arguments_is_an_error_of_the_answer(
    line: str, told: str
) -> None:
    result = told_of_a_run(line, Numbers())
    assert result.outcome is Outcome.ERROR
    assert told in result.text


def test_so_it_is_where_a_grader_calls_it_outside_a_loop() -> None:
    names: dict[str, Any] = {}
    exec(compile("def grade(): (lambda loader: 0)()", str(LESSON), "exec"), names)
    assert verdict(names["grade"]).outcome is Outcome.ERROR


def test_a_graders_loop_may_reject_a_batch() -> None:
    assert told_of_a_run("not_yet('a-code')", Numbers()) == Result(Outcome.NOT_YET, "a-code")


def test_what_a_dataset_raises_in_the_loop_is_the_answers_own() -> None:
    result = told_of_a_run("pass", Numbers(raise_error))
    assert result.outcome is Outcome.ERROR
    assert "ValueError" in result.text


def raises(error: BaseException) -> Callable[[], Result]:
    def grade() -> Result:
        raise error

    return grade


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NameError("name 'os' is not defined"), "`NameError: name 'os' is not defined`"),
        (SystemExit(3), "`SystemExit: 3`"),
        (KeyboardInterrupt(), "`KeyboardInterrupt`"),
        (GeneratorExit(), "`GeneratorExit`"),
        (RecursionError("maximum recursion depth exceeded"), "RecursionError"),
    ],
)
def test_an_exception_with_a_line_of_the_learners_is_theirs(
    error: BaseException, told: str
) -> None:
    result = verdict(raises(error))  # this file counts as a learner's
    assert result.outcome is Outcome.ERROR
    assert told in result.text
    assert "in `grade`, line " in result.text and "lessons/test_checking.py" in result.text


def test_an_exception_without_one_is_a_mistake_of_ours_and_is_told_in_full() -> None:
    result = verdict({}.popitem)  # type: ignore[arg-type]
    assert result.outcome is Outcome.COULD_NOT_CHECK
    assert result.code == "our-mistake"
    assert "Traceback (most recent call last)" in result.text and "KeyError" in result.text


def test_a_stop_in_a_check_is_the_answers_for_nobody_can_press_it() -> None:
    interrupt = functools.partial(signal.raise_signal, signal.SIGINT)
    result = verdict(interrupt)  # type: ignore[arg-type]
    assert (result.outcome, result.fields["error"]) == (Outcome.ERROR, "`KeyboardInterrupt`.")


def test_a_deadline_that_nobody_told_of_is_told() -> None:
    def grade() -> Result:
        with deadline(0.05):
            while True:
                pass

    result = verdict(grade)
    assert result.outcome is Outcome.NOT_YET
    assert result.code == "late" and "in grade" in result.text


# Progress and hints.


def test_progress_counts_what_is_solved_and_lists_the_rest() -> None:
    count = len(exercises())
    assert progress().title == f"0 of {count} exercises solved"
    assert {row[2] for row in progress().rows} == {"Not attempted"}
    check("00.own", 4)
    assert ("00.own", "An exercise", "Not yet") in progress().rows
    check("00.own", 3)
    check("00.own", 4)
    assert ("00.own", "An exercise", "Correct") in progress().rows
    assert progress().title == f"1 of {count} exercises solved"
    assert [row[0] for row in progress().rows] == list(exercises())


def test_progress_of_one_lesson_lists_its_exercises() -> None:
    listed = {row[0] for row in progress("00").rows}
    assert listed == {"00.predict", "00.read", "00.fix", "00.own"}
    with pytest.raises(ValueError, match=r"lesson must be one of 00, 01, .*, got '1'"):
        progress("1")


def test_progress_that_cannot_be_saved_is_said_and_the_check_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLTUTOR_HOME", str(tmp_path / "file"))
    assert check("00.own", 3).outcome is Outcome.CORRECT
    assert "Your progress could not be saved: " in capsys.readouterr().out


def test_after_the_third_hint_it_says_so_and_then_they_begin_again() -> None:
    texts = [str(hint("00.own")) for _ in range(8)]
    assert texts[:3] == [f"Hint {i} of 3: {HINTS[i - 1]}" for i in (1, 2, 3)]
    assert "that was the third" in texts[3]
    assert texts[4:] == texts[:4]


# Tests that apply to every exercise


@pytest.mark.parametrize("name", sorted(exercises()))
def test_every_exercise_has_a_title_three_hints_and_its_lesson(name: str) -> None:
    each = exercises()[name]
    assert each.name == name
    assert each.lesson == name.split(".")[0] and each.lesson.isdigit()
    assert each.title and len(set(each.hints)) == 3 and all(each.hints)
    assert bool(each.runs) == (each.grader.at_most > 0)
    assert bool(each.usually) == bool(each.runs)
    assert each.usually <= each.grader.at_most


ODD: tuple[Any, ...] = (Numbers(), "x", np.float64("nan"), torch.zeros(2), {}, int, len)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        pytest.param(  # by default, run every fourth pair
            answer,
            name,
            id=f"{type(answer).__name__}-{name}",
            marks=pytest.mark.thorough if (number + position) % 4 else (),
        )
        for position, answer in enumerate(ODD)
        for number, name in enumerate(OTHERS)
    ],
)
def test_whatever_is_handed_in_is_told_something_and_is_no_mistake_of_ours(
    name: str, answer: Any
) -> None:
    result = check(name, answer)
    assert result.outcome not in (Outcome.CORRECT, Outcome.COULD_NOT_CHECK), result
    assert result.text
