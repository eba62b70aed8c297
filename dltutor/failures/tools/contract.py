"""What every failure mode supplies: a Failure with a broken and a fixed Case.

`load` makes the DataLoader that most of them have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from dltutor.failures.tools.facts import Facts
from dltutor.failures.tools.sign import Sign

if TYPE_CHECKING:  # torch takes a second to import, and `dltutor list` does not need it
    from torch.utils.data import DataLoader, Dataset

#: How multiprocessing can start a worker on Linux.
START_METHODS: Final = ("fork", "spawn", "forkserver")

Consume = Callable[["DataLoader[Any]"], object]


@dataclass(frozen=True)
class Case:
    """A real loader, and the loop that uses it where the fault is seen in the loop.

    Args:
        loader: The DataLoader, ready to iterate.
        consume: The training loop as a function of the loader; None for
            `for batch in loader: pass`. A loop that measures the fault returns a Finding.
    """

    loader: DataLoader[Any]
    consume: Consume | None = None


class MakeCase(Protocol):
    """Builds a Case. Every failure takes at least these keyword arguments."""

    def __call__(self, *, workers: int = 2, start_method: str = "fork") -> Case: ...


def never() -> str | None:
    """The `absent` of a failure that every machine shows."""
    return None


@dataclass(frozen=True, eq=False)  # compared by its facts, which no two of them share
class Failure(Facts):
    """One way in which a loader goes wrong, and the same loader fixed: its facts, and two cases.

    Args:
        broken: Builds the loader that goes wrong.
        fixed: Builds the fixed loader.
        sign: What the broken case shows and the fixed one does not.
        start_methods: The start methods under which the broken case shows its sign. Under the
            others it shows none, or another failure.
        limits: Keyword arguments of `confine`, for a case that is safe only under limits.
        isolated: Whether the case needs an interpreter of its own, without any limits.
        deadline: Seconds that a run of the broken case is given under `fork`; other start methods
            take longer to start and are given more. The fixed case gets a minute.
        ordered: Whether the fixed case delivers the same batches in the same order with any number
            of workers. If not, its batches are tensors of one dimension, and their values are the
            same.
        absent: Says why this machine does not show the failure, or returns None.
    """

    broken: MakeCase
    fixed: MakeCase
    sign: Sign
    start_methods: tuple[str, ...] = START_METHODS
    limits: Mapping[str, int | str] = field(default_factory=dict)
    isolated: bool = False
    deadline: float = 30
    ordered: bool = True
    absent: Callable[[], str | None] = never


def load(dataset: Dataset[Any], workers: int, start_method: str, **options: Any) -> DataLoader[Any]:
    """Make a loader of batches of 4, which starts its workers by the method that is named.

    Args:
        dataset: What to load.
        workers: The number of workers; 0 for none.
        start_method: "fork", "spawn" or "forkserver"; without workers it has no meaning.
        options: Further arguments of the DataLoader. `prefetch_factor` and `persistent_workers`
            are left out without workers, which alone have a use for them.
    """
    from torch.utils.data import DataLoader

    options = {"batch_size": 4} | options
    if workers:
        options["multiprocessing_context"] = start_method
    else:
        for name in ("prefetch_factor", "persistent_workers"):
            options.pop(name, None)
    return DataLoader(dataset, num_workers=workers, **options)
