"""Grade "00.fix": every pair of neighbors arrives, once and in order, with any number of workers.

The answer is run on the levels of the notebook, on a list with awkward ones, and, for many epochs
of one dataset, on a list of only two; all datasets are made before the first is run.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import made, theirs

Pair = tuple[int, int]

#: A river's level in cm, hour by hour: the list in the notebook.
LEVELS: Final = (52, 55, 61, 68, 72, 81, 90, 88, 79, 67, 60, 58, 56, 53, 50, 49, 47)

# Levels that come again, zero, negative ones, and more than fit into 8 or 16 bits.
_AWKWARD: Final = (31, 33, 33, 33, 44, 31, 0, -3, 301, 1027, 70001, 33, *range(61, 33, -1))
# Levels, workers, epochs. What changes from one epoch to the next shows soonest in two levels.
_RUNS: Final = ((LEVELS, 2, 1), (_AWKWARD, 0, 2), ((33, 44), 0, 20), (_AWKWARD, 4, 1))
_BATCH: Final = 4  # not the 2 of the notebook, which a stream may count on
_TIME: Final = 6  # seconds for making a dataset, and again for all its epochs


class Pairs(Dataset[Pair]):
    """The starter: a level and the level one hour later."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.levels = levels

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> Pair:
        return self.levels[index], self.levels[index + 1]


@dataclass(frozen=True)
class Run:
    """What an answer delivered from one list.

    Args:
        levels: The list.
        workers: How many the loader had.
        promised: What `__len__` says.
        epochs: What arrived in each epoch, in order, up to the one that ended the run; what is no
            pair, as text.
        ending: How the run ended.
        left: What the list holds that the answer was given, after all; 52.0 is not 52.
    """

    levels: tuple[int, ...]
    workers: int
    promised: int
    epochs: tuple[tuple[Pair | str, ...], ...]
    ending: Ending
    left: tuple[str, ...]


def look(answer: Any) -> type:
    """The answer, if it is a class that is no longer the starter."""
    return a_fixed_class(answer, Pairs, methods=())


def gather(answer: type) -> tuple[Run, ...]:
    """The runs, up to the first that is not right."""
    runs: list[Run] = []
    lists = [[*levels] for levels, *_ in _RUNS]
    datasets = [made(answer, given, call="Pairs(levels)", within=_TIME) for given in lists]
    for (levels, workers, count), given in zip(_RUNS, lists, strict=True):
        dataset = datasets.pop(0)
        with theirs():
            promised = len(dataset)  # a stream needs none to be loaded, but the task asks for it
        epochs: list[list[Pair | str]] = []

        def collect(loader: DataLoader[Any], epochs: list[list[Pair | str]] = epochs) -> None:
            epochs.append([])
            for batch, samples in loader:
                epochs[-1] += _pairs_in(batch) or samples

        how: dict[str, Any] = {"within": _TIME, "batch_size": _BATCH, "collate_fn": _collate}
        ending = run_loader(dataset, collect, workers=workers, epochs=count, **how)
        del dataset
        gc.collect()  # its last chance to change the list
        arrived, left = tuple(map(tuple, epochs)), tuple(map(repr, given))
        runs.append(Run(levels, workers, promised, arrived, ending, left))
        if ending.end != "finished" or any(each != [*pairwise(levels)] for each in epochs):
            break
    return tuple(runs)


def _collate(samples: list[Any]) -> tuple[Any, list[str]]:
    # A batch does not show what its samples were: two strings, or one dict.
    return default_collate(samples), [*map(shown, samples)]


def _pairs_in(batch: Any) -> list[Pair]:
    if isinstance(batch, torch.Tensor) and batch.dim() == 2:  # samples that were tensors
        batch = batch.unbind(1)
    parts = batch if isinstance(batch, (list, tuple)) and len(batch) == 2 else ()
    numbers = all(isinstance(part, torch.Tensor) and part.dim() == 1 for part in parts)
    return list(zip(*(part.tolist() for part in parts), strict=True)) if numbers else []


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if every pair came in every epoch."""
    for run in runs:
        _judge(run)
    return correct(
        f"{len(LEVELS) - 1} of {len(LEVELS) - 1} pairs arrive from {len(LEVELS)} levels, "
        f"{len(_AWKWARD) - 1} of {len(_AWKWARD) - 1} from {len(_AWKWARD)}, and 1 from 2, each once "
        "and in order, with 0, 2 and 4 workers, in 20 epochs too."
    )


def _judge(run: Run) -> None:
    expected: list[Pair | str] = [*pairwise(run.levels)]
    wrong = (n for n, pairs in enumerate(run.epochs) if [*pairs] != expected)
    number = next(wrong, len(run.epochs) - 1)
    pairs = run.epochs[number]
    missing = Counter(expected) - Counter(pairs)
    loader = f"with {run.workers} workers{f', in epoch {number + 1}' if number else ''}"
    came = (
        f"{loader}, {len(expected) - missing.total()} of {len(expected)} pairs came from "
        f"{len(run.levels)} levels"
    )
    promise = f" `__len__` promises {run.promised} samples."
    if run.ending.kind == "IndexError":
        not_yet(f"{came} in batches of {_BATCH}, then {run.ending.error}{promise}")
    if "found <class 'NoneType'>" in run.ending.message:
        not_yet(f"{came}, then `{run.ending.kind}`: a sample was None.{promise}")
    ended_well(run.ending, loader)
    held = zip_longest(map(repr, run.levels), run.left, fillvalue="missing")
    for place, (was, now) in enumerate(held):
        if was != now:
            not_yet(
                f"{came}, but the list that your class was given has changed: `levels[{place}]` "
                f"was {was} and is {now}. Whose list is it?"
            )
    for place, pair in enumerate(pairs):
        if pair not in expected:
            neighbors = "a level and the one an hour later. Where is it from?"
            due = "two numbers." if isinstance(pair, str) else neighbors
            not_yet(f"{came}. As sample {place} came {pair}, which is not {due}")
    for pair in Counter(pairs) - Counter(expected):
        not_yet(f"{came}. And {pair} came once too often. Where is the second from?")
    for pair in missing:
        if times := pairs.count(pair):
            due = f"{times} of {expected.count(pair)} times"
            not_yet(f"{came}. {pair} came {due}: the same two levels can come again.")
        not_yet(f"{came}. {pair} did not. No error says so.{promise}")
    if [*pairs] != expected:
        not_yet(f"{came}. But in batches of {_BATCH} they came in another order than in `levels`.")
    if run.promised > len(pairs):
        not_yet(f"{came}. But{promise} A loader takes StopIteration for the end of an epoch.")
    if run.promised < len(pairs):
        not_yet(f"{came}. But{promise}")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="24 epochs, with 2, 0 and 4 workers",
    at_most=2 * _TIME * len(_RUNS) + 3,
)
