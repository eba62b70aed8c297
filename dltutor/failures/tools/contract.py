"""Define what makes up a failure mode: a Failure with a broken and a fixed Case.

`load` makes the DataLoader that most of the cases use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from dltutor.failures.tools.facts import Facts
from dltutor.failures.tools.sign import Sign

if TYPE_CHECKING:  # importing torch is slow, and `dltutor list` doesn't need it
    from torch.utils.data import DataLoader, Dataset

#: How multiprocessing can start a worker on Linux.
START_METHODS: Final = ("fork", "spawn", "forkserver")

Consume = Callable[["DataLoader[Any]"], object]


@dataclass(frozen=True)
class Case:
    """A loader, and the training loop if that's where the failure shows.

    Args:
        loader: The DataLoader, ready to iterate.
        consume: The training loop, as a function that takes the loader. If None (the default), the
            loop is `for batch in loader: pass`. A loop that measures the failure returns a Finding.
    """

    loader: DataLoader[Any]
    consume: Consume | None = None


class MakeCase(Protocol):
    """A function that builds a Case, and takes at least these keyword arguments."""

    def __call__(self, *, workers: int = 2, start_method: str = "fork") -> Case: ...


def never() -> str | None:
    """Return None, which means that this machine shows the failure."""
    return None


@dataclass(frozen=True, eq=False)  # Facts' __eq__ is enough, because no two failures share a name
class Failure(Facts):
    """One failure mode: its facts, a loader that goes wrong, and the same loader fixed.

    The module of a failure mode passes its facts as `**facts_of(__name__)`.

    Args:
        broken: A function that builds the loader that goes wrong.
        fixed: A function that builds the fixed loader.
        sign: What the broken case shows and the fixed one doesn't.
        start_methods: The start methods under which the broken case shows its sign. Under the
            others, that case shows nothing or a different failure.
        limits: Keyword arguments for `confine`, for a case that fails or is safe only under limits.
        isolated: Whether the cases need their own interpreter, even if they need no limits.
        deadline: Seconds that a run of the broken case may take under `fork`. Other start methods
            get more, because they start workers more slowly. The fixed case gets at least a minute.
        ordered: Whether the fixed case delivers the same batches in the same order with any number
            of workers. If not, that case's batches are one-dimensional tensors with the same values
            overall.
        absent: A function that returns why this machine doesn't show the failure, or None if it
            does.
    """

    broken: MakeCase
    fixed: MakeCase
    sign: Sign
    start_methods: tuple[str, ...] = START_METHODS
    limits: Mapping[str, int | str] = field(default_factory=dict)
    isolated: bool = False
    deadline: float = 60
    ordered: bool = True
    absent: Callable[[], str | None] = never


def load(dataset: Dataset[Any], workers: int, start_method: str, **options: Any) -> DataLoader[Any]:
    """Make a DataLoader with batches of 4, unless `options` has another `batch_size`.

    Args:
        dataset: A map-style or iterable dataset.
        workers: The number of workers, or 0 to load in main.
        start_method: "fork", "spawn", or "forkserver", which matters only with workers.
        options: More arguments for the DataLoader. Without workers, `load` drops
            `prefetch_factor`, `persistent_workers`, and `timeout`, because torch rejects them.
    """
    from torch.utils.data import DataLoader

    options = {"batch_size": 4} | options
    if workers:
        options["multiprocessing_context"] = start_method
    else:
        for name in ("prefetch_factor", "persistent_workers", "timeout"):
            options.pop(name, None)
    return DataLoader(dataset, num_workers=workers, **options)
