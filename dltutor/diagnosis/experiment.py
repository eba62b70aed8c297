"""What an experiment is: one question about a loader, and how to find the answer."""

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
    """One question, and how to find the answer.

    Args:
        field: The field of Evidence that the answer fills.
        question: The question in words.
        record: The type of the answer. Its `str` is the answer in words.
        seconds: How long it may take with forked workers. Other workers get more time.
        needed: Given the evidence so far, returns whether the question is worth asking.
        ask: Called in a fork of the process, with a subject that it may change. Returns the record,
            or raises `Unanswered`, which says why there's no answer.
        cut_short: Makes the record if the process died or was stopped. Given why it was stopped (""
            if it died), its exit code, and the last number in the subject's mark.
        held: Whether to fork while a thread of main holds a lock.
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
        """Check that Evidence has this field, with this type.

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

    The question is the first line of the module's docstring, and the record is the return type of
    `ask`. The arguments are those of an Experiment.
    """
    question = (sys.modules[ask.__module__].__doc__ or "").partition("\n")[0]
    record = typing.get_type_hints(ask)["return"]
    return Experiment(field, question, record, seconds, needed, ask, cut_short, held)


_Record = typing.TypeVar("_Record")


def read(record: type[_Record], answer: dict[str, Any]) -> _Record:
    """Make a record from JSON. Lists become tuples.

    Args:
        record: The record's type.
        answer: Its fields. Any that the record doesn't have are ignored.
    """
    known = {each.name for each in fields(record)}  # type: ignore[arg-type]  # dataclasses only
    return record(**{name: _frozen(value) for name, value in answer.items() if name in known})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
