"""Grade "00.fix": every pair of neighbors arrives, once and in order, with any number of workers.

The answer is run on the levels of the notebook and on others: a list with equal neighbors, for two
epochs of one dataset, and a list of only two levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import made, theirs

Pair = tuple[int, int]

#: A river's level in cm, hour by hour: the list in the notebook.
LEVELS: Final = (52, 55, 61, 68, 72, 81, 90, 88, 79, 67, 60, 58, 56, 53, 50, 49, 47)

_CALM: Final = (31, 33, 33, 33, 44, 43, 40, 37, 36, 35, 34, 31)  # levels that come again
_RUNS: Final = ((LEVELS, 2, 1), (_CALM, 0, 2), (_CALM[1:3], 0, 1), (LEVELS, 4, 1))
_EPOCH: Final = 6  # seconds
_MAKING: Final = 1  # seconds for making the dataset


class Pairs(Dataset[Pair]):
    """The starter: a level and the level one hour later."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.levels = levels

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> Pair:
        return self.levels[index], self.levels[index + 1]


@dataclass(frozen=True)
class Epoch:
    """What an answer delivered in one epoch.

    Args:
        levels: What it was made from.
        workers: How many the loader had.
        promised: What `__len__` says.
        pairs: What arrived, in order.
        run: How the epoch ended.
        number: Which one of the same dataset it was, from 1.
        left: The list that the answer was given, after the epoch.
    """

    levels: tuple[int, ...]
    workers: int
    promised: int
    pairs: tuple[Pair, ...]
    run: Ending
    number: int
    left: tuple[int, ...]


class _NoPairs(TypeError):
    pass


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(answer, Pairs)


def gather(answer: type) -> tuple[Epoch, ...]:
    """The epochs of all runs, up to the first that is not right."""
    epochs: list[Epoch] = []
    for levels, workers, count in _RUNS:
        given = list(levels)
        dataset = made(answer, given, call=f"{answer.__name__}(levels)", within=_MAKING)
        with theirs():
            promised = len(dataset)
        for number in range(1, count + 1):
            got: list[Pair] = []

            def collect(loader: DataLoader[Any], got: list[Pair] = got) -> None:
                for batch in loader:
                    got.extend(_pairs_in(batch))

            run = run_loader(dataset, collect, workers=workers, within=_EPOCH, batch_size=2)
            epochs.append(Epoch(levels, workers, promised, tuple(got), run, number, tuple(given)))
            if epochs[-1].pairs != tuple(pairwise(levels)):
                return tuple(epochs)
    return tuple(epochs)


def _pairs_in(batch: Any) -> list[Pair]:
    if isinstance(batch, torch.Tensor) and batch.dim() == 2:  # samples that were tensors
        batch = list(batch.unbind(1))
    if (
        isinstance(batch, (list, tuple))
        and len(batch) == 2
        and all(isinstance(part, torch.Tensor) and part.dim() == 1 for part in batch)
    ):
        first, second = (part.tolist() for part in batch)
        return list(zip(first, second, strict=True))
    raise _NoPairs("a sample must be two numbers: a level, and the level one hour later")


def judge(epochs: tuple[Epoch, ...]) -> Result:
    """Correct if every pair came in every epoch."""
    for epoch in epochs:
        _judge(epoch)
    return correct(
        f"{len(LEVELS) - 1} of {len(LEVELS) - 1} pairs arrive from {len(LEVELS)} levels, "
        f"{len(_CALM) - 1} of {len(_CALM) - 1} from {len(_CALM)}, and 1 from 2, each once and in "
        "order, with 0, 2 and 4 workers. `__len__` promises what `__getitem__` can keep."
    )


def _judge(epoch: Epoch) -> None:
    expected = list(pairwise(epoch.levels))
    missing = Counter(expected) - Counter(epoch.pairs)
    again = ", in a second epoch" if epoch.number > 1 else ""
    arrived = len(expected) - missing.total()
    came = (
        f"with {epoch.workers} workers{again}, {arrived} of {len(expected)} pairs came from "
        f"{len(epoch.levels)} levels"
    )
    run, promise = epoch.run, "The loader asks for as many samples as `__len__` promises"
    if run.kind == "IndexError":
        not_yet(f"{came}, then {run.error} {promise}: {epoch.promised}.")
    if "NoneType" in run.message and run.raised_in_worker:
        not_yet(f"{came}, then `{run.kind}`: a sample is None. {promise}: {epoch.promised}.")
    if run.kind == _NoPairs.__name__:
        error_in_your_code(f"{run.message.partition(': ')[2]}.")
    ended_well(run, came)
    if epoch.left != epoch.levels:
        not_yet(
            f"{came}, but the list that your class was given has changed: it had "
            f"{len(epoch.levels)} levels and has {len(epoch.left)}. Whose list is it?"
        )
    if wrong := _wrong_pairs(epoch, expected, [*missing]):
        not_yet(f"{came}. {wrong}")


def _wrong_pairs(epoch: Epoch, expected: list[Pair], missing: list[Pair]) -> str:
    got = list(epoch.pairs)
    for pair in Counter(got) - Counter(expected):
        if pair in expected:
            return f"And {pair} came once too often. Which index brought it?"
        place = f"as sample {got.index(pair)} came {pair}"
        return f"And {place}, which are not two levels one hour apart. Where are they from?"
    if missing:
        return f"{missing[0]} did not. No error says so: `__len__` promises {epoch.promised}."
    if got != expected:
        return "But they came in another order than they were measured."
    if epoch.promised != len(got):
        return (
            f"But `__len__` promises {epoch.promised}. The epoch ended early and without an error: "
            "a loader takes StopIteration for its end."
        )
    return ""


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="five epochs, with 2, 0 and 4 workers",
    at_most=sum(_MAKING + count * _EPOCH for *_, count in _RUNS) + 3,
)
