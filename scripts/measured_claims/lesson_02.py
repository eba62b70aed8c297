"""Lesson 02: what becomes of an exception that a transform raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.utils.data import DataLoader, Dataset

from dltutor import observe
from measured_claims import EXITING, Claim, Measured


class OneArgument(Exception):
    """Takes its text alone."""


class TwoArguments(Exception):
    """Takes a name and a reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


def _local() -> Exception:
    class Local(Exception):
        pass

    return Local("no array")


_RAISED: Final[dict[str, Callable[[], Exception]]] = {
    "one argument": lambda: OneArgument("no array"),
    "two arguments": lambda: TwoArguments("a.png", "no array"),
    "defined in a function": _local,
}


class _Transformed(Dataset[Any]):
    def __init__(self, make: Callable[[], Exception]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        raise self.make()


def _own_types() -> Measured:
    found = {}
    for name, make in _RAISED.items():
        loader = DataLoader(_Transformed(make), num_workers=2, multiprocessing_context="fork")
        seen = observe(loader, deadline=3)
        found[name] = seen.chain[0][0] if seen.chain else seen.end
    expected = {"one argument": "OneArgument", "two arguments": "RuntimeError"}
    told = ", ".join(f"{name}: `{end}`" for name, end in found.items())
    as_expected = found == {**expected, "defined in a function": "hung"}
    return Measured(
        f"What the loop gets, by the exception's class: {told} (3 s were given).",
        "holds for a class that takes one text; the type is lost with two arguments, and a class "
        "made inside a function hangs the loop."
        if as_expected
        else "other than expected.",
    )


CLAIMS: Final = (
    Claim(
        "A transform may raise an exception class of its own, and the training script sees it.",
        EXITING,
        "A dataset raises in two forked workers: a class that takes its text alone, one that takes "
        "two arguments, one that is defined inside a function.",
        _own_types,
    ),
)
