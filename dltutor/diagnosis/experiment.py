"""Declare experiments, and read their answers."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.running.subject import Mark, Subject

Needed = Callable[[Evidence], bool]
CutShort = Callable[[str, int | None, Mark], Any]


@dataclass(frozen=True)
class Experiment:
    """One question about a loader, and how to find the answer.

    Args:
        field: The field of Evidence that the answer fills.
        question: What the experiment asks, as a sentence.
        record: The type of the answer. The report shows an answer's `str`.
        seconds: How long the experiment may take with forked workers. Other workers get more time.
        needed: A function that takes the evidence so far, and returns whether to ask the question.
        ask: A function that runs in a fork, with a Subject that it may change, and returns the
            record or raises `Unanswered` to say why there's no answer.
        cut_short: A function that makes the record if the process died or ran out of time. The
            function takes the reason for stopping ("" if the process died), the exit code, and
            the subject's Mark. If None, there's no answer then.
        held: Whether to fork while a thread in main holds a lock (default False).
    """

    field: str
    question: str
    record: type
    seconds: float
    needed: Needed
    ask: Callable[[Subject], Any]
    cut_short: CutShort | None = None
    held: bool = False


def probe(
    field: str,
    seconds: float,
    needed: Needed,
    ask: Callable[[Subject], Any],
    cut_short: CutShort | None = None,
    *,
    held: bool = False,
) -> Experiment:
    """Return the Experiment for a module in `probes`.

    The question is the first line in the docstring of the module that defines `ask`, and the record
    is the return type of `ask`. The arguments are the same as for Experiment.
    """
    question = (sys.modules[ask.__module__].__doc__ or "").partition("\n")[0]
    record = typing.get_type_hints(ask)["return"]
    return Experiment(field, question, record, seconds, needed, ask, cut_short, held)


_Record = typing.TypeVar("_Record")


def read(record: type[_Record], answer: dict[str, Any]) -> _Record:
    """Make a record from decoded JSON, with tuples instead of lists.

    Args:
        record: The class of the record to make.
        answer: The record's fields. `read` ignores fields that the record doesn't have.
    """
    known = {each.name for each in fields(record)}  # type: ignore[arg-type]  # a dataclass
    return record(**{name: _frozen(value) for name, value in answer.items() if name in known})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
