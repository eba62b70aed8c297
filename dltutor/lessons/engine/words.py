"""Read the titles, hints, and messages of exercises from TOML files.

Each lesson has an `exercises.toml` with a table for each exercise, in the lesson's order:

    [fix]
    title = "..."           # for `progress()`
    runs = "..."            # if the check runs code: the words after "Checking 10.fix:"
    usually = 5             # seconds that the check of a right answer takes on two cores
    hints = ["...", "...", "..."]   # where to look, which mechanism, almost the line to write
    [fix.says]
    correct = "..."         # code -> what the learner reads, with {fields} from the evidence

A question with options has `answer = "c"`, and `[predict.options]` has feedback for each option.
If the answer is a number, the options are the right number and the likely wrong numbers,
and `other-number` is for any other number. A question that asks for a word for each of several jobs
has `answer = { A = "word", B = "another" }`. One that asks for several letters has `answer = ["A",
"C"]` and `letters = "ABC"`. Messages that several exercises of a lesson share are in `[says]`, and
messages that all lessons share are in `engine/words.toml`. `text` looks for a code in the
exercise's options, in the exercise's messages, in those of the lesson, and in those of all lessons.
In all these files, any run of spaces and newlines counts as one space.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

_LESSONS: Final = Path(__file__).parents[1]


@cache
def lesson(number: str) -> dict[str, Any]:
    """Return the `exercises.toml` of a lesson, such as "10", as a dict."""
    return _read(_LESSONS / f"lesson_{number}" / "exercises.toml")


@cache
def _common() -> dict[str, Any]:
    return _read(_LESSONS / "engine" / "words.toml")


def _read(path: Path) -> dict[str, Any]:
    folded: dict[str, Any] = _fold(tomllib.loads(path.read_text()))
    return folded


def _fold(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _fold(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_fold(each) for each in value]
    return " ".join(value.split()) if isinstance(value, str) else value


def _own(table: dict[str, Any], name: str) -> tuple[dict[str, str], ...]:
    exercise = table.get(name, {})
    return exercise.get("options", {}), exercise.get("says", {}), table.get("says", {})


def text(exercise: str, code: str, fields: Mapping[str, object]) -> str:
    """Return the message that a check shows for a code.

    Args:
        exercise: The exercise's name, such as "10.fix".
        code: The code for what the check found, such as "hung".
        fields: Values for the message's {fields}. An empty value leaves no extra space. The value
            of `finding` is another code, whose message replaces {finding}.

    Raises:
        KeyError: No file has a message for the code, or `fields` lacks one of the message's fields.
    """
    number, _, name = exercise.partition(".")

    def field(named: re.Match[str]) -> str:
        value = str(fields[named[1]])
        return text(exercise, value, fields) if named[1] == "finding" else value

    for says in (*_own(lesson(number), name), _common()):
        if code in says:
            # Fill in the fields in one pass, because a value from the learner may have braces.
            filled = re.sub(r"\{(\w+)\}", field, says[code])
            return re.sub(r"(?<=\S) {2,}(?=\S)", " ", filled).strip()
    raise KeyError(f"no words for {code!r} in {exercise}")
