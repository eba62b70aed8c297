"""What "05.fix" and "05.transfer" ask alike: each sample is the one that was asked for, in workers
and in main.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import Ending, run_loader
from dltutor.lessons.engine.forms import shown
from dltutor.lessons.engine.outcomes import Rejected, not_yet
from dltutor.lessons.engine.running import made

RUNS: Final = ((2, 2), (0, 2), (4, 1))  # workers, and epochs
LONG: Final = 15  # seconds for each thing that the answer does


@dataclass(frozen=True)
class Delivered:
    """What an answer delivered with some workers.

    Args:
        workers: How many.
        run: How it ended.
        asked: How many samples were asked for.
        samples: How many came.
        wrong: How many of them are not what was asked for.
        others: How many of those are what was asked for elsewhere.
        in_main: What main read wrong meanwhile, or what it raised, or "".
    """

    workers: int
    run: Ending
    asked: int
    samples: int
    wrong: int = 0
    others: int = 0
    in_main: str = ""

    def is_right(self) -> bool:
        """Whether all came."""
        return not (self.run.end != "finished" or self.missing or self.wrong or self.in_main)

    @property
    def missing(self) -> int:
        """How many did not come, though nothing was raised: a StopIteration ends an epoch."""
        return self.asked - self.samples if self.run.end == "finished" else 0

    def told(self, what: str, others: str) -> str:
        """How many are wrong, in words.

        Args:
            what: What the samples are, in the plural.
            others: What those do that were asked for elsewhere.
        """
        if not self.samples:
            return f"no {what} came"
        more = f", and {self.others} of these {others}" if self.others else ""
        return f"{self.wrong} of {self.samples} {what} are wrong{more}"


def read(dataset: Any, indices: Sequence[int], expected: dict[int, torch.Tensor]) -> str:
    """Read samples in main.

    Returns:
        What is wrong with the first that is, or what it raised; or "".
    """
    for index in indices:
        try:
            sample = made(dataset.__getitem__, index, call=f"dataset[{index}]", within=LONG)
        except Rejected as rejected:
            return f"`dataset[{index}]` fails: {rejected.result.text.rstrip('.')}"
        if not _is(sample, expected[index]):
            return (
                f"`dataset[{index}]` is {_told(sample)}, and the starter alone gets "
                f"{_told(expected[index])}"
            )
    return ""


def deliver(
    dataset: Any,
    expected: dict[int, torch.Tensor],
    order: list[int],
    workers: int,
    epochs: int,
    main: Callable[[int], str] = lambda index: "",
    **options: Any,
) -> Delivered:
    """Run an answer's dataset in a loader.

    Args:
        dataset: The dataset.
        expected: Index -> its sample.
        order: The indices, as they are asked for.
        workers: How many.
        epochs: How many.
        main: Reads in main the sample of an index, between two batches; what is wrong, or "".
        options: More arguments of the DataLoader.
    """
    came: list[Any] = []  # for each sample the index of the one that it is
    told: list[str] = []

    def collect(loader: DataLoader[Any]) -> None:
        if loader.num_workers != workers:
            not_yet("your class changes `DataLoader`: the exercise keeps its workers.")
        for batch in loader:
            came.extend(
                next((index for index, each in expected.items() if _is(sample, each)), None)
                for sample in batch
            )
            told.append(main(order[len(came) % len(order)]))

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
    in_main = next(filter(None, told), "")
    return Delivered(workers, run, len(asked), len(came), len(wrong), others, in_main)


def all_came(delivered: Delivered, lead: str, what: str) -> None:
    """Go on only where as many samples came as were asked for.

    Args:
        delivered: What came.
        lead: The circumstances, as the start of a sentence.
        what: What the samples are, in the plural.

    Raises:
        Rejected: Fewer came, and nothing was raised.
    """
    if delivered.missing:
        not_yet(
            f"{lead}, {delivered.samples} of {delivered.asked} {what} came, and no error. A "
            "`StopIteration` ends an epoch: what in your class raises one?"
        )


def _is(sample: Any, expected: torch.Tensor) -> bool:
    return (
        isinstance(sample, torch.Tensor)
        and sample.dtype == expected.dtype
        and torch.equal(sample, expected)
    )


def _told(sample: Any) -> str:
    if not isinstance(sample, torch.Tensor):
        return f"`{shown(sample)}`, of the type {type(sample).__name__}"
    more = ", ..." if sample.numel() > 4 else ""
    first = ", ".join(map(str, sample.flatten()[:4].tolist()))
    return f"`[{first}{more}]` of {sample.dtype} and shape {tuple(sample.shape)}"
