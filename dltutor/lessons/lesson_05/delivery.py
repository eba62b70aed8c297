"""What "05.fix" and "05.transfer" both check: each sample is the one that was asked for, in workers
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
from dltutor.lessons.engine.outcomes import Fault, Rejected, fault, not_yet
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
        in_main: What was wrong with a sample that main read between the batches.
    """

    workers: int
    run: Ending
    asked: int
    samples: int
    wrong: int = 0
    others: int = 0
    in_main: Fault | None = None

    def is_right(self) -> bool:
        """Whether all samples arrived, and all are right."""
        return not (self.run.end != "finished" or self.missing or self.wrong or self.in_main)

    @property
    def missing(self) -> int:
        """How many didn't arrive although nothing was raised: a StopIteration ends an epoch."""
        return self.asked - self.samples if self.run.end == "finished" else 0

    @property
    def code(self) -> str:
        """How the wrong ones are wrong: "mixed-up", "wrong", or "" if there are none."""
        return "mixed-up" if self.others else "wrong" if self.wrong else ""

    @property
    def fields(self) -> dict[str, object]:
        """The numbers, for a code's words."""
        return {
            "asked": self.asked,
            "samples": self.samples,
            "wrong": self.wrong,
            "others": self.others,
        }


def read(dataset: Any, indices: Sequence[int], expected: dict[int, torch.Tensor]) -> Fault | None:
    """Read samples in main.

    Returns:
        What's wrong with the first bad one: "main-raised", "main-not-ready", or "other-sample".
    """
    for index in indices:
        try:
            sample = made(dataset.__getitem__, index, call=f"dataset[{index}]", within=LONG)
        except Rejected as rejected:
            failed = rejected.result
            return fault(f"main-{failed.code}", **{**failed.fields, "index": index})
        if not _is(sample, expected[index]):
            right = _in_short(expected[index])
            return fault("other-sample", index=index, sample=_in_short(sample), expected=right)
    return None


def reject(wrong: Fault | None, where: str, other_sample: str = "other-sample") -> None:
    """Reject an answer if main has read something wrong from it.

    Args:
        wrong: What `read` found, if anything.
        where: The circumstances, as the start of a sentence.
        other_sample: The code to use instead of "other-sample".
    """
    if wrong:
        code = other_sample if wrong.code == "other-sample" else wrong.code
        not_yet(code, **{**wrong.fields, "where": where})


def deliver(
    dataset: Any,
    expected: dict[int, torch.Tensor],
    order: list[int],
    workers: int,
    epochs: int,
    main: Callable[[int], Fault | None] = lambda index: None,
    **options: Any,
) -> Delivered:
    """Run an answer's dataset in a loader.

    Args:
        dataset: The dataset.
        expected: Index -> its sample.
        order: The indices, in the order in which the loader asks for them.
        workers: How many.
        epochs: How many.
        main: Reads the sample of an index in main, between two batches, like `read`.
        options: More arguments of the DataLoader.
    """
    came: list[Any] = []  # for each sample, the index of the one that it is
    found: list[Fault | None] = []

    def collect(loader: DataLoader[Any]) -> None:
        if loader.num_workers != workers:
            not_yet("other-loader")
        for batch in loader:
            came.extend(
                next((index for index, each in expected.items() if _is(sample, each)), None)
                for sample in batch
            )
            found.append(main(order[len(came) % len(order)]))

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
    in_main = next(filter(None, found), None)
    return Delivered(workers, run, len(asked), len(came), len(wrong), others, in_main)


def all_came(delivered: Delivered, where: str) -> None:
    """Go on only if as many samples arrived as were asked for.

    Args:
        delivered: What arrived.
        where: The circumstances, as the start of a sentence.

    Raises:
        Rejected: Fewer arrived, and nothing was raised.
    """
    if delivered.missing:
        not_yet("missing", where=where, **delivered.fields)


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
