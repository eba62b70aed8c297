"""check() judges an answer, says what it saw, and never raises for a learner."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import Numbers, load, raise_error

from dltutor.lessons import (
    EXERCISES,
    CheckFailed,
    Exercise,
    Outcome,
    Result,
    check,
    hint,
    progress,
)
from dltutor.lessons.kit.answers import Unfit, a_class, failed_in_loader, failed_in_main, same_code
from dltutor.lessons.kit.exercise import choice
from dltutor.lessons.kit.outcome import correct, not_yet
from dltutor.observation import observe

HINTS = ("Look there.", "It is this.", "Write `that`.")


def exercise(grade: Callable[[Any], Result], **fields: Any) -> Exercise:
    return Exercise(name="00.own", title="An exercise", grade=grade, hints=HINTS, **fields)


@pytest.fixture(autouse=True)
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Add an exercise `00.own` to those that there are."""

    def added(grade: Callable[[Any], Result], **fields: Any) -> None:
        monkeypatch.setitem(EXERCISES, "00.own", exercise(grade, **fields))

    return added


class Dataset(Numbers):
    """One that is right."""


# What check() answers.


def test_the_result_is_what_the_exercise_says(add: Callable[..., None]) -> None:
    add(lambda answer: correct("so it is") if answer == 3 else not_yet("no"))
    assert check("00.own", 3) == correct("so it is")
    assert check("00.own", 4) == not_yet("no")


def test_what_runs_and_for_how_long_at_most_is_said_at_once(
    add: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def grade(answer: Any) -> Result:
        assert capsys.readouterr().out == "Checking 00.own: runs it twice, at most 20 s.\n"
        return correct("yes")

    add(grade, runs="runs it twice", at_most=20)
    assert check("00.own", None).outcome is Outcome.CORRECT


def test_a_check_that_runs_nothing_announces_nothing(
    add: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    add(lambda answer: correct("yes"))
    check("00.own", None)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["01.mned", "", None, 3, ["01.fix"], {}, Dataset])
def test_an_exercise_that_is_not_there_is_named_with_those_that_are(name: Any) -> None:
    result = check(name, 3)
    assert result.outcome is Outcome.COULD_NOT_CHECK
    assert "there is no exercise" in result.text and "01.fix" in result.text
    assert "there is no exercise" in str(hint(name))


def raises(error: BaseException) -> Callable[[Any], Result]:
    def grade(answer: Any) -> Result:
        raise error

    return grade


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NameError("name 'os' is not defined"), "`NameError: name 'os' is not defined`"),
        (SystemExit(3), "`SystemExit: 3`"),
        (GeneratorExit(), "`GeneratorExit`"),
        (RecursionError("maximum recursion depth exceeded"), "RecursionError"),
    ],
)
def test_an_error_of_the_answer_is_told_and_not_raised(
    add: Callable[..., None], error: BaseException, told: str
) -> None:
    add(raises(error))
    result = check("00.own", None)
    assert result.outcome is Outcome.ERROR
    assert told in result.text
    assert "in `grade`, line " in result.text and "tests/test_check.py" in result.text


def test_stop_stops_a_check(add: Callable[..., None]) -> None:
    add(raises(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        check("00.own", None)


def test_an_answer_that_says_it_is_unfit_is_told_why(add: Callable[..., None]) -> None:
    add(raises(Unfit(not_yet("too few samples"))))
    assert check("00.own", None) == not_yet("too few samples")


def test_under_strict_all_but_correct_raises(
    add: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLTUTOR_STRICT", "1")
    add(lambda answer: correct("yes") if answer else not_yet("look again"))
    assert check("00.own", True).outcome is Outcome.CORRECT
    with pytest.raises(CheckFailed, match=r"Not yet\. look again"):
        check("00.own", False)
    with pytest.raises(CheckFailed, match="there is no exercise"):
        check("01.mned", True)


# Progress and hints.


def test_progress_counts_what_is_solved_and_lists_the_rest(add: Callable[..., None]) -> None:
    add(lambda answer: correct("yes") if answer else not_yet("no"))
    count = len(EXERCISES)
    assert progress().title == f"0 of {count} exercises solved"
    assert {row[2] for row in progress().rows} == {"Not attempted"}
    check("00.own", False)
    assert ("00.own", "An exercise", "Not yet") in progress().rows
    check("00.own", True)
    check("00.own", False)
    assert ("00.own", "An exercise", "Correct") in progress().rows
    assert progress().title == f"1 of {count} exercises solved"
    assert [row[0] for row in progress().rows] == list(EXERCISES)


def test_progress_that_cannot_be_saved_is_said_and_the_check_still_answers(
    add: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLTUTOR_HOME", str(tmp_path / "file"))
    add(lambda answer: correct("yes"))
    assert check("00.own", None).outcome is Outcome.CORRECT
    assert "Your progress could not be saved: " in capsys.readouterr().out


def test_hints_come_one_by_one_and_start_again(add: Callable[..., None]) -> None:
    add(lambda answer: correct("yes"))
    texts = [str(hint("00.own")) for _ in range(6)]
    assert sorted(texts[:3]) == [f"Hint {i} of 3: {HINTS[i - 1]}" for i in (1, 2, 3)]
    assert texts[3:] == texts[:3]


@pytest.mark.parametrize("name", sorted(EXERCISES))
def test_every_exercise_has_a_title_three_hints_and_its_lesson(name: str) -> None:
    each = EXERCISES[name]
    assert each.name == name
    assert each.lesson == name.split(".")[0] and each.lesson.isdigit()
    assert each.title and len(set(each.hints)) == 3 and all(each.hints)
    assert bool(each.runs) == (each.at_most > 0)


@pytest.mark.parametrize("name", sorted(EXERCISES))
@pytest.mark.parametrize("answer", [Numbers(), object(), "x", -1, 1.5, [], int, len, ...])
def test_whatever_is_handed_in_gets_an_answer_that_is_not_correct(name: str, answer: Any) -> None:
    result = check(name, answer)
    # A grader that trips over it could not check.
    assert result.outcome in (Outcome.NOT_ATTEMPTED, Outcome.NOT_YET, Outcome.ERROR), result
    assert result.text


# One of a few letters.


def test_a_choice_answers_each_option_by_its_own_text() -> None:
    grade = choice("b", {"a": "No: it is shared.", "b": "Yes.", "c": "No: it is copied."})
    assert grade("b") == correct("Yes.")
    assert grade("c") == not_yet("No: it is copied.")
    assert grade(...).outcome is grade(None).outcome is Outcome.NOT_ATTEMPTED
    for other in ("d", "B", 2, ["b"], {"b": 1}):
        assert grade(other).outcome is Outcome.NOT_YET
        assert "none of the options" in grade(other).text and "'a', 'b', 'c'" in grade(other).text


# A class as the answer.


def unfit(answer: Any) -> str:
    with pytest.raises(Unfit) as caught:
        a_class(answer)
    assert caught.value.result.outcome is Outcome.ERROR
    return caught.value.result.text


def test_a_class_is_taken() -> None:
    assert a_class(Dataset) is Dataset


def test_an_object_in_place_of_its_class_is_told_so() -> None:
    assert unfit(Dataset()) == "the check takes the class itself, `Dataset`, not an object of it."


@pytest.mark.parametrize("answer", [3, None, "Dataset", lambda: Dataset])
def test_what_is_no_class_at_all_is_shown(answer: Any) -> None:
    assert unfit(answer).startswith("the check takes a class, got ")


def test_a_class_without_a_length_is_told_what_it_lacks() -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    assert unfit(Endless) == "`Endless` has no `__len__`."
    assert unfit(int) == "`int` has no `__len__`."


# Still the starter?


def made(body: str) -> type:
    names: dict[str, Any] = {"Numbers": Numbers}
    exec(f"class Made(Numbers):\n{body}", names)
    made: type = names["Made"]
    return made


STARTER = "    def f(self, x=1):\n        y = [x + 1 for _ in range(3)]\n        return sum(y)\n"


@pytest.mark.parametrize(
    "body",
    [
        STARTER,
        "    # a comment\n\n" + STARTER.replace("return sum(y)", "return sum(y)  # another"),
        STARTER.replace("x + 1", "x    +    1"),
        STARTER.replace("[x + 1", "[\n            x + 1"),
    ],
)
def test_comments_and_layout_do_not_make_another_class(body: str) -> None:
    assert same_code(made(STARTER), made(body))


@pytest.mark.parametrize(
    "body",
    [
        STARTER.replace("sum(y)", "sum(y) + 1"),
        STARTER.replace("sum", "max"),
        STARTER.replace("x + 1", "x + 2"),  # inside a nested piece of code
        STARTER.replace("x=1", "x=2"),
        STARTER.replace("self, x=1", "self, *, x=1"),
        STARTER.replace("    def", "    @staticmethod\n    def"),
        STARTER + "    @staticmethod\n    def g():\n        return 1\n",
        STARTER + "    size = 3\n",
        STARTER + "    @property\n    def g(self):\n        return 1\n",
    ],
)
def test_every_change_that_does_something_makes_another_class(body: str) -> None:
    assert not same_code(made(STARTER), made(body))


def test_a_change_inside_a_property_or_static_method_counts() -> None:
    for kind in ("staticmethod", "classmethod", "property"):
        body = f"    @{kind}\n    def g(x=0):\n        return 1\n"
        assert same_code(made(body), made(body))
        assert not same_code(made(body), made(body.replace("return 1", "return 2")))


# Telling of an error.


def test_an_error_in_main_is_told_with_its_line() -> None:
    try:
        raise_error()
    except ValueError as error:
        line = error.__traceback__.tb_next.tb_lineno  # type: ignore[union-attr]
        text = failed_in_main(error).text
    assert text == f"`ValueError: nine is bad` in `raise_error`, line {line} of tests/datasets.py."


def test_an_error_in_a_worker_is_told_in_the_same_words() -> None:
    seen = observe(load(Numbers(raise_error)))
    text = failed_in_loader(seen).text
    assert text.startswith("`ValueError: nine is bad` in `raise_error`, line ")


def test_an_error_without_a_line_of_the_learners_is_told_by_its_text() -> None:
    assert failed_in_main(ValueError("nine is bad")).text == "`ValueError: nine is bad`."


def test_an_error_in_a_cell_is_told_with_the_line_of_the_cell() -> None:
    code = compile("\n\nraise KeyError('label')", "/tmp/ipykernel_7/8.py", "exec")
    try:
        exec(code)
    except KeyError:
        text = failed_in_main(sys.exc_info()[1]).text  # type: ignore[arg-type]
    assert text == "`KeyError: 'label'` in `<module>`, line 3 of your cell."
