"""What a check can say: five outcomes, each a label and a text. All but Correct are raised."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from dltutor.tables import Note, Tone


class Outcome(Enum):
    """The five outcomes. The value is the label that a learner reads."""

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


_LONGEST: Final = 3000  # characters of a text


@dataclass(frozen=True)
class Result:
    """The answer to a check.

    Args:
        outcome: One of the five.
        text: First what was observed, then where to look.
    """

    outcome: Outcome
    text: str

    def to_dict(self) -> dict[str, str]:
        """The outcome and the beginning of the text, for the way out of the sandbox."""
        return {"outcome": self.outcome.value, "text": self.text[:_LONGEST]}

    @staticmethod
    def from_dict(told: object) -> Result | None:
        """What came out of the sandbox, or None where nothing did."""
        match told:
            case {"outcome": str(outcome), "text": str(text)}:
                return Result(Outcome(outcome), text)
        return None

    def note(self) -> Note:
        """The outcome and the text, to be shown."""
        end = "." if self.outcome in (Outcome.CORRECT, Outcome.NOT_YET) else ":"
        return Note(f"{self.outcome.value}{end}", self.text, _TONES[self.outcome])

    def __str__(self) -> str:
        return str(self.note())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.note()._repr_html_()


class Rejected(Exception):
    """The answer is not correct. Graders raise it wherever they find that out.

    Args:
        result: What to tell the learner.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


def correct(text: str) -> Result:
    """The exercise is solved."""
    return Result(Outcome.CORRECT, text)


def not_yet(text: str) -> NoReturn:
    """Reject an answer that runs and is not right yet."""
    raise Rejected(Result(Outcome.NOT_YET, text[:1].upper() + text[1:]))


def not_attempted(text: str) -> NoReturn:
    """Reject an answer that is still what the notebook came with."""
    raise Rejected(Result(Outcome.NOT_ATTEMPTED, text))


def error_in_your_code(text: str) -> NoReturn:
    """Reject an answer that cannot be run."""
    raise Rejected(Result(Outcome.ERROR, text))


def could_not_check(text: str) -> NoReturn:
    """Give up where this machine, or this call, does not permit the check."""
    raise Rejected(Result(Outcome.COULD_NOT_CHECK, text))
