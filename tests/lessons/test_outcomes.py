"""Check that the five outcomes show their labels and words, and that every code has words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from own_exercise import HINTS

from dltutor import lessons
from dltutor.lessons.engine import words
from dltutor.lessons.engine.outcomes import (
    Outcome,
    Rejected,
    Result,
    correct,
    could_not_check,
    error_in_your_code,
    not_attempted,
    not_yet,
)


def told(make: Callable[[str], Result], text: str) -> Result:
    """Return the result that `correct` returns, or that any other `make` raises in a Rejected."""
    if make is correct:
        return make(text)
    with pytest.raises(Rejected) as rejected:
        make(text)
    return rejected.value.result


makers = pytest.mark.parametrize(
    ("make", "outcome", "shown"),
    [
        (correct, Outcome.CORRECT, "Correct. 8 of 8."),
        (not_yet, Outcome.NOT_YET, "Not yet. 8 of 8."),
        (not_attempted, Outcome.NOT_ATTEMPTED, "Not attempted: 8 of 8."),
        (error_in_your_code, Outcome.ERROR, "Error in your code: 8 of 8."),
        (could_not_check, Outcome.COULD_NOT_CHECK, "Could not check here: 8 of 8."),
    ],
)


@makers
def test_an_outcome_is_a_label_and_the_words_of_its_code(
    make: Callable[[str], Result], outcome: Outcome, shown: str
) -> None:
    result = told(make, "8 of 8.")
    assert (result.outcome, result.code) == (outcome, "8 of 8.")
    assert str(result) == repr(result) == shown


@makers
def test_html_has_the_label_in_words_too(
    make: Callable[[str], Result], outcome: Outcome, shown: str
) -> None:
    html = told(make, "Is `a < b` so?")._repr_html_()
    assert outcome.value in html
    assert "<code>a &lt; b</code>" in html


def test_right_and_wrong_differ_in_color_also() -> None:
    assert len({told(make, "x")._repr_html_().split(";")[0] for make in (correct, not_yet)}) == 2


OWN = {
    "says": {"missing": "{where}, {came} of 8 came. {more} Why?", "hung": "own words"},
    "hints": HINTS,
}


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(words.lesson("00"), "own", OWN)
    monkeypatch.setitem(words.lesson("00"), "says", {"missing": "of the lesson", "lost": "lost"})


def said(code: str, outcome: Outcome = Outcome.NOT_YET, **fields: object) -> str:
    return Result(outcome, code, fields, "00.own").text


@pytest.mark.usefixtures("own")
def test_words_are_the_exercises_own_else_the_lessons_else_everybodys() -> None:
    assert said("hung") == "Own words"
    assert said("lost") == "Lost"
    assert "`f`" in said("starter-class", Outcome.NOT_ATTEMPTED, name="f")
    with pytest.raises(KeyError, match="no words for 'no-such'"):
        said("no-such")


@pytest.mark.usefixtures("own")
def test_fields_are_filled_in_and_an_empty_one_leaves_no_gap() -> None:
    fields = {"where": "with 2 workers", "came": 7}
    assert said("missing", more="", **fields) == "With 2 workers, 7 of 8 came. Why?"
    assert (
        said("missing", more="{came}  {", **fields) == "With 2 workers, 7 of 8 came. {came} { Why?"
    )
    # The words for an error follow a colon, so they begin in lowercase.
    assert said("missing", Outcome.ERROR, more="", **fields).startswith("with")


def test_every_code_has_words_and_all_words_are_used() -> None:
    folders = sorted(Path(lessons.__file__).parent.glob("lesson_*"))
    # A function in one lesson may make the grader of another, so look for each code in all lessons.
    every = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    for folder in folders:
        table = words.lesson(folder.name[-2:])
        exercises = {name: each for name, each in table.items() if name != "says"}
        own = {code for each in (*exercises.values(), table) for code in each.get("says", ())}
        written = "".join(path.read_text() for path in folder.glob("*.py"))
        unused = {code for code in own - COMMON if not mentions(every + ENGINE, code)}
        assert unused <= {"correct"}, (folder.name, unused)
        codes = re.findall(rf"""\b(?:{MAKERS})\(\s*"([^"]*)\"""", written)
        options = {code for each in exercises.values() for code in each.get("options", ())}
        unknown = {*codes} - own - COMMON - options
        assert not unknown, (folder.name, unknown)


MAKERS = "correct|not_yet|not_attempted|error_in_your_code|could_not_check|fault"
ENGINE = "".join(path.read_text() for path in Path(words.__file__).parent.glob("*.py"))
COMMON = {*tomllib.loads((Path(words.__file__).parent / "words.toml").read_text())}


def mentions(written: str, code: str) -> bool:
    """Return whether source text has a code, either whole or as an f-string that can make it."""
    made = (re.sub(r"\\{.*?\\}", ".*", re.escape(each)) for each in F_STRINGS.findall(written))
    return f'"{code}"' in written or any(re.fullmatch(each, code) for each in made)


F_STRINGS = re.compile(r'''f"([a-z{][^" ]*)"''')


def test_a_result_that_no_check_made_is_none() -> None:
    sent = correct("all-right").to_dict()
    assert Result.from_dict(sent) == correct("all-right")
    assert Result.from_dict(sent | {"outcome": "Excellent"}) is None
    assert Result.from_dict(None) is None
