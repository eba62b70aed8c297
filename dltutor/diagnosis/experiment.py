"""What an experiment is: one question to a loader, and how its answer is found."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dltutor.diagnosis.evidence import Evidence
    from dltutor.diagnosis.running.subject import Subject

Needed = Callable[["Evidence"], bool]
CutShort = Callable[[str, int | None, int], Any]


@dataclass(frozen=True)
class Experiment:
    """One question, and how its answer is found.

    Args:
        field: The field of Evidence that the answer fills.
        question: In words.
        record: The type of the answer. Its `str` is the answer in words.
        seconds: The most that it may take with workers that are forked; others get more.
        needed: Whether the answer would tell anything, after what is known.
        ask: Called in the sandbox, in a fork of the process, with a loader that it may change;
            returns the record, or raises `Unanswered`, which says why there is no time for it.
        cut_short: Makes the record of a run whose process died or was stopped: given why it was
            stopped ("" if it died), its exit code, and the number that the subject's mark had.
        held: Whether it is forked while a thread of main holds a lock.
    """

    field: str
    question: str
    record: type
    seconds: float
    needed: Needed
    ask: Callable[[Subject], Any]
    cut_short: CutShort | None = None
    held: bool = False

    def check(self) -> None:
        """Check that Evidence has the field, and the field the type.

        Raises:
            TypeError: It doesn't.
        """
        from dltutor.diagnosis.evidence import Evidence

        if self.field not in {each.name for each in fields(Evidence)}:
            raise TypeError(f"{self.ask.__module__}: Evidence has no field {self.field!r}")
        wanted = typing.get_type_hints(Evidence)[self.field]
        if self.record not in (typing.get_args(wanted) or (wanted,)):
            raise TypeError(f"{self.ask.__module__}: Evidence.{self.field} must be {wanted}")


def probe(
    field: str,
    seconds: float,
    needed: Needed,
    ask: Callable[[Subject], Any],
    cut_short: CutShort | None = None,
    *,
    held: bool = False,
) -> Experiment:
    """Declare the experiment of a module of `probes`.

    The question is the first line of the module's docstring, and the record is what `ask` says it
    returns. The arguments are those of an Experiment.
    """
    question = (sys.modules[ask.__module__].__doc__ or "").partition("\n")[0]
    record = typing.get_type_hints(ask)["return"]
    return Experiment(field, question, record, seconds, needed, ask, cut_short, held)


_Record = typing.TypeVar("_Record")


def read(record: type[_Record], answer: dict[str, Any]) -> _Record:
    """Make a record of what JSON has: lists become tuples.

    Args:
        record: The record's type.
        answer: Its fields. Those that the record doesn't have are left out.
    """
    known = {each.name for each in fields(record)}  # type: ignore[arg-type]  # dataclasses only
    return record(**{name: _frozen(value) for name, value in answer.items() if name in known})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
