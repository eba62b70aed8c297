"""What an experiment is: one question to a loader, and how its answer is found."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.kit.bench import Bench


@dataclass(frozen=True)
class Experiment:
    """One question. Its words are the first line of the docstring of the module with `ask`.

    Args:
        field: The field of Evidence that its answer fills.
        seconds: The most that it may take with workers that are forked; others get more.
        needed: Whether the answer would tell anything, after what is known.
        ask: Called in the sandbox, in a fork of the process, with a loader that it may change;
            returns the record, or raises `bench.TooSlow`, which says why there is no time for it.
        cut_short: Makes the record of a run whose process died or was stopped: given why it was
            stopped ("" if it died), its exit code, and the number that the bench's mark had.
        held: Whether it is forked while a thread of main holds a lock.

    Raises:
        TypeError: Evidence has no such field, or one of another type than `ask` returns.
    """

    field: str
    seconds: float
    needed: Callable[[Evidence | None], bool]
    ask: Callable[[Bench], Any]
    cut_short: Callable[[str, int | None, int], Any] | None = None
    held: bool = False

    def __post_init__(self) -> None:
        if self.field not in {each.name for each in fields(Evidence)}:
            raise TypeError(f"{self.ask.__module__}: Evidence has no field {self.field!r}")
        if self.record not in (wanted := _types(typing.get_type_hints(Evidence)[self.field])):
            raise TypeError(f"{self.ask.__module__}: ask() must return one of {wanted}")

    @cached_property
    def record(self) -> Any:
        """The type of its answer."""
        return typing.get_type_hints(self.ask)["return"]

    @property
    def question(self) -> str:
        """In words."""
        return (sys.modules[self.ask.__module__].__doc__ or "").partition("\n")[0]


def _types(annotation: Any) -> tuple[Any, ...]:
    return typing.get_args(annotation) or (annotation,)
