"""The words of exercises: titles, hints, and what a check says, from TOML files.

Each lesson has an `exercises.toml` with a table for each exercise, in the order of the lesson:

    [fix]
    title = "..."           # for the list of progress
    runs = "..."            # what the check runs, after "Checking 10.fix:"; none if it's quick
    hints = ["...", "...", "..."]   # where to look, which mechanism, nearly the line
    [fix.says]
    correct = "..."         # code -> what the learner reads, with {fields} of the evidence

A question with options has `answer = "c"` and `[predict.options]` instead, with what to say to
somebody who chose each. If the answer is a number, the options are the ones that people take for
it, and `other-number` is for all others. What several exercises of a lesson say stands in `[says]`,
and what all lessons say in `engine/says.toml`. The first of the three that has a code says it. Any
number of spaces and line ends in these files is one space.
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
    """What the `exercises.toml` of a lesson says.

    Args:
        number: The lesson's, such as "10".
    """
    return _read(_LESSONS / f"lesson_{number}" / "exercises.toml")


@cache
def _common() -> dict[str, Any]:
    return _read(_LESSONS / "engine" / "says.toml")


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
    """What a check says for a code.

    Args:
        exercise: Its name, such as "10.fix".
        code: What the check found.
        fields: What the words take from the evidence. One that is empty leaves no gap, and
            `finding` is a code itself, which stands for its words.

    Raises:
        KeyError: No file has words for the code, or they name a field that isn't given.
    """
    number, _, name = exercise.partition(".")

    def field(named: re.Match[str]) -> str:
        value = str(fields[named[1]])
        return text(exercise, value, fields) if named[1] == "finding" else value

    for says in (*_own(lesson(number), name), _common()):
        if code in says:
            # Only the fields of our own words are filled in: what a learner wrote has braces, too.
            filled = re.sub(r"\{(\w+)\}", field, says[code])
            return re.sub(r"(?<=\S) {2,}(?=\S)", " ", filled).strip()
    raise KeyError(f"no words for {code!r} in {exercise}")
