"""Define the result of a check, and the functions that accept or reject an answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NoReturn, TypeAlias

from dltutor.lessons.engine import words
from dltutor.tables import Note, Tone


class Outcome(Enum):
    """One of a check's five outcomes. Its value is the label that a learner reads."""

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
# A colon follows the labels of these outcomes, and a period follows the other labels.
_COLON: Final = (Outcome.NOT_ATTEMPTED, Outcome.ERROR, Outcome.COULD_NOT_CHECK)

_LONGEST: Final = 3000  # the most characters that the sandbox sends for a field


@dataclass(frozen=True)
class Result:
    """The result of a check, which a notebook shows as a note.

    Args:
        outcome: One of the five outcomes.
        code: The code for what the check found. `engine/words.py` looks up the code's message.
        fields: Values from the evidence, for the message to show.
        exercise: The name of the exercise whose messages apply, or "" until check() sets the name.
    """

    outcome: Outcome
    code: str
    fields: Mapping[str, object] = field(default_factory=dict)
    exercise: str = ""

    def under(self, code: str) -> Result:
        """Return a copy that puts this result's message into the message for another code.

        Args:
            code: The code for the outer message, which has `{finding}` for this result's message.
        """
        return replace(self, code=code, fields={**self.fields, "finding": self.code})

    @property
    def text(self) -> str:
        """The message for the learner, or the code and the fields if no exercise is set."""
        if not self.exercise:
            return " ".join((self.code, *map(str, self.fields.values())))
        said = words.text(self.exercise, self.code, self.fields)
        after_a_colon = self.outcome in _COLON
        return said if after_a_colon else said[:1].upper() + said[1:]

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for the sandbox to send, with the keys "outcome", "code", and "fields".

        The fields are strings, cut after 3,000 characters.
        """
        fields = {name: str(value)[:_LONGEST] for name, value in self.fields.items()}
        return {"outcome": self.outcome.value, "code": self.code, "fields": fields}

    @staticmethod
    def from_dict(sent: object) -> Result | None:
        """Return the result that `to_dict` turned into this dict, or None for any other object."""
        match sent:
            case {"outcome": str(outcome), "code": str(code), "fields": dict(fields)}:
                with suppress(ValueError):  # an answer may have written to the sandbox's pipe
                    return Result(Outcome(outcome), code, fields)
        return None

    def note(self) -> Note:
        """Return the outcome and the message as a note."""
        end = ":" if self.outcome in _COLON else "."
        return Note(f"{self.outcome.value}{end}", self.text, _TONES[self.outcome])

    def __str__(self) -> str:
        return str(self.note())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.note()._repr_html_()


#: A mistake that a grader's `gather` records as evidence, so that its `judge` rejects the answer.
Fault: TypeAlias = Result


def fault(code: str, /, **fields: object) -> Fault:
    """Return a "Not yet" result, for a `gather` to keep as evidence of a mistake."""
    return Result(Outcome.NOT_YET, code, fields)


class Rejected(Exception):
    """An exception that stops a grader with a result other than "Correct"."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


def correct(code: str = "correct", /, **fields: object) -> Result:
    """Return the result for a correct answer, with the code and the fields for its message."""
    return Result(Outcome.CORRECT, code, fields)


def not_yet(code: str, /, **fields: object) -> NoReturn:
    """Raise `Rejected` for an answer that isn't right yet, with its message's code and fields."""
    raise Rejected(fault(code, **fields))


def reject(found: Fault, **more: object) -> NoReturn:
    """Raise `Rejected` with a recorded mistake, and `more` fields for the mistake's message."""
    raise Rejected(replace(found, fields={**more, **found.fields}))


def not_attempted(code: str, /, **fields: object) -> NoReturn:
    """Raise `Rejected` for an answer that's still the starter."""
    raise Rejected(Result(Outcome.NOT_ATTEMPTED, code, fields))


def error_in_your_code(code: str, /, **fields: object) -> NoReturn:
    """Raise `Rejected` for an answer that fails, or that has the wrong form for the exercise."""
    raise Rejected(Result(Outcome.ERROR, code, fields))


def could_not_check(code: str, /, **fields: object) -> NoReturn:
    """Raise `Rejected` to give up the check for a reason that isn't the answer's fault."""
    raise Rejected(Result(Outcome.COULD_NOT_CHECK, code, fields))
