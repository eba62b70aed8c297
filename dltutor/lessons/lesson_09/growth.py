"""What a dataset costs each worker in private memory, and whether its samples are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import Gauge
from dltutor.lessons.kit.endings import Ending, ending
from dltutor.lessons.kit.outcomes import could_not_check
from dltutor.lessons.kit.running import theirs
from dltutor.observation import observe

WITHIN: Final = 8  # seconds for one run
_BATCH: Final = 80


@dataclass(frozen=True)
class Task:
    """What differs from one dataset that is to be rewritten to another.

    Args:
        noun: What the lesson calls a sample, such as "caption".
        kind: What a sample has to be, in words.
        is_kind: Whether it is.
        same: Whether two are the same.
        told: A sample, for a message.
        broken: The starter: a dataset made as `broken(path)`.
        packed: The same samples, kept as bytes.
        write: Writes a file for them.
    """

    noun: str
    kind: str
    is_kind: Callable[[Any], bool]
    same: Callable[[Any, Any], bool]
    told: Callable[[Any], str]
    broken: type
    packed: type
    write: Callable[[Path], None]


@dataclass
class Compared:
    """Samples, held against what they should be.

    Args:
        number: How many.
        different: How many of them were something else.
        index: That of the first of these.
        example: What it is and should be, in words.
        other_kind: What a sample is that has another type, in words; nothing was read after it.
    """

    number: int = 0
    different: int = 0
    index: int = 0
    example: tuple[str, str] = ("", "")
    other_kind: str = ""

    def fits(self, task: Task, index: int, sample: Any, truth: Any) -> bool:
        """Note one more; False if it is of another type."""
        self.number += 1
        if not task.is_kind(sample):
            self.other_kind = _kind_of(sample)
        elif not task.same(sample, truth):
            if not self.different:
                self.index, self.example = index, (task.told(sample), task.told(truth))
            self.different += 1
        return not self.other_kind


@dataclass(frozen=True)
class Run:
    """What a loader with a dataset did.

    Args:
        end: How the run ended.
        first: MB private to each worker (to main, without workers) with its first batch.
        last: The same with the last batch.
        compared: What the samples were.
    """

    end: Ending
    first: float
    last: float
    compared: Compared = field(default_factory=Compared)

    def more_than(self, other: Run) -> float:
        """MB that each worker had more at the end than in another run."""
        return max(0.0, self.last - other.last)

    @property
    def is_right(self) -> bool:
        """Whether it finished, and its samples are what they should be."""
        wrong = self.compared.different or self.compared.other_kind
        return self.end.end == "finished" and not wrong


def measure(
    dataset: Any,
    count: int | None = None,
    *,
    workers: int = 2,
    within: float = WITHIN,
    task: Task | None = None,
    truth: Any = None,
) -> Run:
    """Read a dataset with forked workers in random order, or without workers in its own.

    Args:
        dataset: What to read.
        count: How many samples; None for all, each once.
        workers: How many.
        within: Seconds that it may take.
        task: What a sample has to be; None to compare nothing.
        truth: Index -> what the sample should be. It must hold no Python objects: main reads it
            while the workers share its pages.
    """
    order = torch.arange(len(dataset))
    if workers:
        order = torch.randperm(len(order), generator=torch.Generator().manual_seed(7))
    indices = order[:count].tolist()
    with theirs():
        loader = DataLoader(
            dataset,
            batch_size=_BATCH,
            sampler=indices,
            num_workers=workers,
            # An answer is typed into a notebook, so its workers have to be forked.
            multiprocessing_context="fork" if workers else None,
            collate_fn=list,
        )
    private: list[float] = []
    compared = Compared()

    def read(loader: DataLoader[Any]) -> None:
        gauge, left = Gauge(), iter(indices)
        for number, batch in enumerate(loader):
            if number in (max(workers - 1, 0), len(loader) - 1):  # batches come in turn
                private.append(gauge.private())
            if task and not all(
                compared.fits(task, index, came, truth[index])
                for came, index in zip(batch, left, strict=False)
            ):
                return

    end = ending(observe(loader, consume=read, deadline=within))
    return Run(end, private[0] if private else 0.0, private[-1] if private else 0.0, compared)


def private_memory_is_known() -> None:
    """Go on only where this machine tells what memory is private."""
    try:
        psutil.Process().memory_full_info().uss  # noqa: B018 - not every system has it
    except (psutil.Error, AttributeError):
        could_not_check("this machine does not say how much memory a process shares with no other.")


def _kind_of(sample: Any) -> str:
    if isinstance(sample, np.ndarray):
        return f"an array of {sample.dtype} with the shape {sample.shape}"
    return "None" if sample is None else f"of the type `{type(sample).__name__}`"
