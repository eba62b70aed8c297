"""What a dataset costs each of two forked workers in private memory, and whether it reads right."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import psutil
import torch
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import Gauge
from dltutor.lessons.kit.answers import Unfit
from dltutor.lessons.kit.outcome import could_not_check
from dltutor.observation import Observation, observe

PATIENCE: Final = 8  # seconds for one run
WORKERS: Final = 2
_BATCH: Final = 200

Same = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Run:
    """What a loader with this dataset did.

    Args:
        observation: How the run ended.
        first: MB private to each worker when the first batch had come.
        last: The same with the last batch.
        compared: How many samples were held against what they should be.
        different: The indices of those that were something else.
    """

    observation: Observation
    first: float
    last: float
    compared: int
    different: tuple[int, ...]

    def more_than(self, other: Run) -> float:
        """MB that each worker had more at the end than in another run."""
        return max(0.0, self.last - other.last)


def measure(dataset: Any, count: int, *, truth: Any = None, same: Same | None = None) -> Run:
    """Read some samples in random order, with two forked workers.

    Args:
        dataset: What to read.
        count: How many samples.
        truth: Index -> what the sample should be; None to compare nothing. It must hold no Python
            objects: main reads it while the workers share its pages.
        same: Whether a sample is what it should be.
    """
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(7))[:count]
    indices = order.tolist()
    loader = DataLoader(
        dataset,
        batch_size=_BATCH,
        sampler=indices,
        num_workers=WORKERS,
        multiprocessing_context="fork",  # an answer is typed into a notebook
        collate_fn=list,
    )
    private: list[float] = []
    different: list[int] = []
    compared = 0

    def read(loader: DataLoader[Any]) -> None:
        nonlocal compared
        gauge = Gauge()
        for number, batch in enumerate(loader):
            if number in (0, len(loader) - 1):
                private.append(gauge.private())
            if truth is None or same is None:
                continue
            for index, sample in zip(indices[compared:], batch, strict=False):
                compared += 1
                if not same(sample, truth[index]):
                    different.append(index)

    observation = observe(loader, consume=read, deadline=PATIENCE)
    known = private or [float("nan")]
    return Run(observation, known[0], known[-1], compared, tuple(different))


def private_memory_is_known() -> None:
    """Go on only where this machine tells what memory is private.

    Raises:
        Unfit: It does not.
    """
    try:
        known = psutil.Process().memory_full_info().uss > 0
    except (psutil.Error, AttributeError):
        known = False
    if not known:
        text = "this machine does not say how much memory belongs to one process alone (USS)."
        raise Unfit(could_not_check(text))


@dataclass
class Collector:
    """The state of Python's garbage collector, to be put back after an answer has run."""

    enabled: bool
    frozen: int

    @classmethod
    def now(cls) -> Collector:
        """As it is."""
        return cls(gc.isenabled(), gc.get_freeze_count())

    def put_back(self) -> None:
        """As it was."""
        if gc.get_freeze_count() > self.frozen:
            gc.unfreeze()
        if self.enabled:
            gc.enable()
