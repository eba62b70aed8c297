"""What "05.fix" and "05.transfer" both check: each sample is the one that was asked for, in workers
and in main.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.forms import shown
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made

RUNS: Final = ((2, 2), (0, 2), (4, 1))  # workers, and epochs
LONG: Final = 15  # seconds for each thing that the answer does


@dataclass(frozen=True)
class Delivered:
    """What an answer delivered with some workers.

    Args:
        workers: How many.
        run: How it ended.
        asked: How many samples the loader asked for.
        samples: How many arrived.
        wrong: How many of those aren't what was asked for.
        others: How many of the wrong ones were asked for elsewhere.
    """

    workers: int
    run: Ending
    asked: int
    samples: int
    wrong: int = 0
    others: int = 0

    def is_right(self) -> bool:
        """Whether all samples arrived, and all are right."""
        return self.run.end == "finished" and self.samples == self.asked and not self.wrong

    @property
    def code(self) -> str:
        """How the wrong ones are wrong: "mixed-up", "wrong", or "" if there are none."""
        return "mixed-up" if self.others else "wrong" if self.wrong else ""

    @property
    def fields(self) -> dict[str, object]:
        """The circumstances and the numbers, for a code's words."""
        return {
            "where": where(self.workers),
            "asked": self.asked,
            "samples": self.samples,
            "wrong": self.wrong,
            "others": self.others,
        }


def read(
    dataset: Any,
    expected: Mapping[int, torch.Tensor],
    where: str,
    other_sample: str = "other-sample",
) -> None:
    """Read samples in main.

    Args:
        dataset: The answer's dataset.
        expected: Index -> its sample.
        where: The circumstances, as the start of a sentence.
        other_sample: The code for a sample that isn't right.

    Raises:
        Rejected: One isn't right, isn't there in time, or raises an exception.
    """
    for index, right in expected.items():
        sample = made(dataset.__getitem__, index, call=f"dataset[{index}]", within=LONG)
        if not _is(sample, right):
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
    """Run an answer's dataset in a loader.

    Args:
        dataset: The dataset.
        expected: Index -> its sample.
        order: The indices, in the order in which the loader asks for them.
        workers: How many.
        epochs: How many.
        options: More arguments of the DataLoader.
    """
    came: list[int | None] = []  # for each sample, the index of the one that it is

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            came.extend(
                next((index for index, each in expected.items() if _is(sample, each)), None)
                for sample in batch
            )

    run = run_loader(
        dataset,
        collect,
        workers=workers,
        within=LONG,
        epochs=epochs,
        batch_size=4,
        sampler=order,
        persistent_workers=workers > 0 and epochs > 1,
        **options,
    )
    asked = order * epochs
    wrong = [it for it, index in zip(came, asked, strict=False) if it != index]
    others = sum(it is not None for it in wrong)
    return Delivered(workers, run, len(asked), len(came), len(wrong), others)


def all_right(delivered: Delivered, kind: str) -> None:
    """Go on only if all samples arrived, and all are right.

    Args:
        delivered: What arrived.
        kind: What the samples are called, as the end of a code: "windows".
    """
    ended_well(delivered.run, where(delivered.workers))
    if delivered.samples < delivered.asked:
        not_yet("missing", **delivered.fields)
    if delivered.wrong:
        not_yet(f"{delivered.code}-{kind}", **delivered.fields)


def _is(sample: Any, expected: torch.Tensor) -> bool:
    return (
        isinstance(sample, torch.Tensor)
        and sample.dtype == expected.dtype
        and torch.equal(sample, expected)
    )


def _in_short(sample: Any) -> str:
    if not isinstance(sample, torch.Tensor):
        return f"`{shown(sample)}` ({type(sample).__name__})"
    more = ", ..." if sample.numel() > 4 else ""
    first = ", ".join(map(str, sample.flatten()[:4].tolist()))
    return f"`[{first}{more}]` ({sample.dtype}, shape {tuple(sample.shape)})"
