"""What every failure mode supplies: a Failure with a broken and a fixed Case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch.utils.data import DataLoader

Consume = Callable[["DataLoader[Any]"], None]


@dataclass(frozen=True)
class Case:
    """A real loader, and the loop that uses it where the fault lies in the loop.

    Args:
        loader: The DataLoader, ready to iterate.
        consume: The training loop as a function of the loader; None for
            `for batch in loader: pass`.
    """

    loader: DataLoader[Any]
    consume: Consume | None = None


class MakeCase(Protocol):
    """Builds a Case. Every failure takes at least these keyword arguments."""

    def __call__(self, *, workers: int = 2, start_method: str = "fork") -> Case: ...


@dataclass(frozen=True)
class Failure:
    """One way in which a loader goes wrong, and the same loader mended.

    Args:
        name: The name to search for, such as `corrupt_images`.
        lesson: The number of the lesson that teaches it, such as "01".
        symptom: What you see, in the words you would type into a search engine; where several
            things can be seen, the one that the broken case shows first, parted by " / ".
        cause: Why it happens, in one or two sentences.
        remedy: What to do at work, in one or two sentences.
        broken: Builds the loader that goes wrong.
        fixed: Builds the mended loader.
        start_methods: The start methods under which the broken case shows its symptom.
    """

    name: str
    lesson: str
    symptom: str
    cause: str
    remedy: str
    broken: MakeCase
    fixed: MakeCase
    start_methods: tuple[str, ...] = ("fork", "spawn", "forkserver")
