"""Check that each sample is right, in workers and in main, for "05.fix" and "05.transfer"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import torch

from dltutor.lessons.engine.endings import Ending, arrivals, check_ending, where
from dltutor.lessons.engine.forms import same_tensor, shown
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made

RUNS: Final = ((2, 2), (0, 2), (4, 1))  # each run's number of workers and number of epochs
LONG: Final = 15  # time limit in seconds for each call or run


@dataclass(frozen=True)
class Delivered:
    """A record of what an answer delivered with a given number of workers.

    Args:
        workers: Number of workers.
        run: How the run ended.
        asked: How many samples the loader asked for.
        samples: How many samples arrived.
        wrong: How many of the samples are wrong.
        others: How many of the wrong samples belong to another index.
    """

    workers: int
    run: Ending
    asked: int
    samples: int
    wrong: int = 0
    others: int = 0

    @property
    def fields(self) -> dict[str, object]:
        """The run's settings and the four counts, by the names that the messages use."""
        return {
            "where": where(self.workers),
            "asked": self.asked,
            "samples": self.samples,
            "wrong": self.wrong,
            "others": self.others,
        }


def check_in_main(
    dataset: Any,
    expected: Mapping[int, torch.Tensor],
    where: str,
    other_sample: str = "other-sample",
) -> None:
    """Raise `Rejected` unless samples that main reads are right.

    Args:
        dataset: The answer's dataset.
        expected: The right sample for each index to read.
        where: When main reads, for a message, such as "in main, between two runs".
        other_sample: The code for a wrong sample.

    Raises:
        Rejected: A sample is wrong or takes too long, or reading it raises an exception.
    """
    for index, right in expected.items():
        sample = made(dataset.__getitem__, index, call=f"dataset[{index}]", within=LONG)
        if not same_tensor(sample, right):
            shorter = {"sample": _in_short(sample), "expected": _in_short(right)}
            not_yet(other_sample, where=where, index=index, **shorter)


def deliver(
    dataset: Any,
    expected: Mapping[int, torch.Tensor],
    order: list[int],
    workers: int,
    epochs: int,
    **options: Any,
) -> Delivered:
    """Run an answer's dataset in a loader, and count what arrives.

    Args:
        dataset: The answer's dataset.
        expected: The right sample for each index.
        order: The indices, in the order in which the loader asks for them.
        workers: Number of workers.
        epochs: Number of epochs.
        options: More arguments for the DataLoader.
    """

    def index_of(sample: Any) -> int | None:
        found = (index for index, each in expected.items() if same_tensor(sample, each))
        return next(found, None)

    how: dict[str, Any] = {"workers": workers, "within": LONG, "epochs": epochs}
    how |= {"batch_size": 4, "sampler": order}
    run, by_epoch = arrivals(dataset, index_of, **how | options)
    asked, came = order * epochs, [*chain(*by_epoch)]
    wrong = [it for it, index in zip(came, asked, strict=False) if it != index]
    others = sum(it is not None for it in wrong)
    return Delivered(workers, run, len(asked), len(came), len(wrong), others)


def check_delivery(delivered: Delivered, *, wrong: str) -> None:
    """Raise `Rejected` unless all samples arrived, and all are right.

    Args:
        delivered: The record of what arrived.
        wrong: The code for wrong samples.
    """
    check_ending(delivered.run, where(delivered.workers))
    if delivered.samples < delivered.asked:
        not_yet("missing", **delivered.fields)
    if delivered.wrong:
        not_yet(wrong, **delivered.fields)


def _in_short(sample: Any) -> str:
    if not isinstance(sample, torch.Tensor):
        return f"`{shown(sample)}` ({type(sample).__name__})"
    more = ", ..." if sample.numel() > 4 else ""
    first = ", ".join(map(str, sample.flatten()[:4].tolist()))
    return f"`[{first}{more}]` ({sample.dtype}, shape {tuple(sample.shape)})"
