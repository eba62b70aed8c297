"""The result of a check: one of five outcomes, and the code of its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NoReturn, TypeAlias

from dltutor.lessons.engine import words
from dltutor.tables import Note, Tone


class Outcome(Enum):
    """One of the five outcomes. The value is the label that a learner reads."""

    CORRECT = "Correct"
    NOT_YET = "Not yet"
    NOT_ATTEMPTED = "Not attempted"
    ERROR = "Error in your code"
    COULD_NOT_CHECK = "Could not check here"


_TONES: Final[dict[Outcome, Tone]] = {
    Outcome.CORRECT: "good",
    Outcome.NOT_YET: "bad",
    Outcome.NOT_ATTEMPTED: "plain",
    Outcome.ERROR: "bad",
    Outcome.COULD_NOT_CHECK: "warn",
}
_COLON: Final = (Outcome.NOT_ATTEMPTED, Outcome.ERROR, Outcome.COULD_NOT_CHECK)  # after the label


_LONGEST: Final = 3000  # characters of a field


@dataclass(frozen=True)
class Result:
    """The result of a check.

    Args:
        outcome: One of the five.
        code: What the check found. `engine/words.py` finds the text for it.
        fields: Values from the evidence that the text shows.
        exercise: The exercise whose texts apply. "" while only the evidence is judged.
    """

    outcome: Outcome
    code: str
    fields: Mapping[str, object] = field(default_factory=dict)
    exercise: str = ""

    def under(self, code: str) -> Result:
        """Return the same result, with its text inside another code's text.

        Args:
            code: The code of a text that has `{finding}` where this result's text goes.
        """
        return replace(self, code=code, fields={**self.fields, "finding": self.code})

    @property
    def text(self) -> str:
        """What the learner reads. Without an exercise, it's the code and its fields."""
        if not self.exercise:
            return " ".join((self.code, *map(str, self.fields.values())))
        said = words.text(self.exercise, self.code, self.fields)
        after_a_colon = self.outcome in _COLON
        return said if after_a_colon else said[:1].upper() + said[1:]

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome, the code, and the beginning of each field, to leave the sandbox."""
        fields = {name: str(value)[:_LONGEST] for name, value in self.fields.items()}
        return {"outcome": self.outcome.value, "code": self.code, "fields": fields}

    @staticmethod
    def from_dict(sent: object) -> Result | None:
        """Return the result that came out of the sandbox, or None if nothing did."""
        match sent:
            case {"outcome": str(outcome), "code": str(code), "fields": dict(fields)}:
                return Result(Outcome(outcome), code, fields)
        return None

    def note(self) -> Note:
        """Return the outcome and the text, ready to show."""
        end = ":" if self.outcome in _COLON else "."
        return Note(f"{self.outcome.value}{end}", self.text, _TONES[self.outcome])

    def __str__(self) -> str:
        return str(self.note())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.note()._repr_html_()


#: A mistake that `gather` records in the evidence, for `judge` to reject.
Fault: TypeAlias = Result


def fault(code: str, /, **fields: object) -> Fault:
    """Return what `not_yet` would raise, to keep it as evidence."""
    return Result(Outcome.NOT_YET, code, fields)


class Rejected(Exception):
    """The answer isn't correct. Graders raise it as soon as they know."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


def correct(code: str = "correct", /, **fields: object) -> Result:
    """Return the result of a solved exercise.

    Args:
        code: As for a Result, like the `code` of the functions below.
        fields: As for a Result.
    """
    return Result(Outcome.CORRECT, code, fields)


def not_yet(code: str, /, **fields: object) -> NoReturn:
    """Reject an answer that runs but isn't right yet."""
    raise Rejected(fault(code, **fields))


def reject(found: Fault) -> NoReturn:
    """Reject an answer for a mistake that the evidence recorded."""
    raise Rejected(found)


def not_attempted(code: str, /, **fields: object) -> NoReturn:
    """Reject an answer that's still the starter."""
    raise Rejected(Result(Outcome.NOT_ATTEMPTED, code, fields))


def error_in_your_code(code: str, /, **fields: object) -> NoReturn:
    """Reject an answer that can't be run."""
    raise Rejected(Result(Outcome.ERROR, code, fields))


def could_not_check(code: str, /, **fields: object) -> NoReturn:
    """Give up, because this machine or this call doesn't permit the check."""
    raise Rejected(Result(Outcome.COULD_NOT_CHECK, code, fields))
