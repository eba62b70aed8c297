"""Grade "00.fix": every pair of neighbors arrives, once and in order, with any number of workers.

The check runs the answer on the notebook's levels, on a list of awkward ones, and for many epochs
on a list of only two levels. It makes all the datasets before it runs the first one.
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

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import made, theirs

Pair = tuple[int, int]

#: A river's level in cm, hour by hour: the list in the notebook.
LEVELS: Final = (52, 55, 61, 68, 72, 81, 90, 88, 79, 67, 60, 58, 56, 53, 50, 49, 47)

# Some levels appear twice, one is 0, one is negative, and some don't fit into 8 or 16 bits.
_AWKWARD: Final = (31, 33, 33, 33, 44, 31, 0, -3, 301, 1027, 70001, 33, *range(61, 33, -1))
# Levels, workers, epochs. With two levels, epochs are short, so there's time for many.
_RUNS: Final = ((LEVELS, 2, 1), (_AWKWARD, 0, 2), ((33, 44), 0, 20), (_AWKWARD, 4, 1))
_BATCH: Final = 4  # not 2 as in the notebook, because a stream may count on that
_TIME: Final = 6  # seconds to make a dataset, and the same again for all its epochs


class Pairs(Dataset[Pair]):
    """The starter: a level and the level an hour later."""

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
        epochs: What arrived in each epoch, in order, up to the one that ended the run. A sample
            that isn't a pair is a string.
        ending: How the run ended.
        left: The `repr` of what's in the list that the answer was given, when everything is over.
            52.0 isn't 52.
    """

    levels: tuple[int, ...]
    workers: int
    promised: int
    epochs: tuple[tuple[Pair | str, ...], ...]
    ending: Ending
    left: tuple[str, ...]


def look(answer: Any) -> type:
    """Return the answer if it's a class that has been changed."""
    return a_fixed_class(answer, Pairs, methods=())


def gather(answer: type) -> tuple[Run, ...]:
    """Run the answer on each list, up to the first run that isn't right."""
    runs: list[Run] = []
    lists = [[*levels] for levels, *_ in _RUNS]
    datasets = [made(answer, given, call="Pairs(levels)", within=_TIME) for given in lists]
    for (levels, workers, count), given in zip(_RUNS, lists, strict=True):
        dataset = datasets.pop(0)
        with theirs():
            promised = len(
                dataset
            )  # a loader doesn't need it of a stream, but the task asks for it
        epochs: list[list[Pair | str]] = []

        def collect(loader: DataLoader[Any], epochs: list[list[Pair | str]] = epochs) -> None:
            epochs.append([])
            for batch, samples in loader:
                epochs[-1] += _pairs_in(batch) or samples

        how: dict[str, Any] = {"within": _TIME, "batch_size": _BATCH, "collate_fn": _collate}
        ending = run_loader(dataset, collect, workers=workers, epochs=count, **how)
        del dataset
        gc.collect()  # the dataset's last chance to change the list
        arrived, left = tuple(map(tuple, epochs)), tuple(map(repr, given))
        runs.append(Run(levels, workers, promised, arrived, ending, left))
        if ending.end != "finished" or any(each != [*pairwise(levels)] for each in epochs):
            break
    return tuple(runs)


def _collate(samples: list[Any]) -> tuple[Any, list[str]]:
    # A batch doesn't show whether its samples were two strings, say, or one dict.
    return default_collate(samples), [*map(shown, samples)]


def _pairs_in(batch: Any) -> list[Pair]:
    if isinstance(batch, torch.Tensor) and batch.dim() == 2:  # samples that were tensors
        batch = batch.unbind(1)
    parts = batch if isinstance(batch, (list, tuple)) and len(batch) == 2 else ()
    numbers = all(isinstance(part, torch.Tensor) and part.dim() == 1 for part in parts)
    return list(zip(*(part.tolist() for part in parts), strict=True)) if numbers else []


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if every pair arrived in every epoch."""
    for run in runs:
        _judge(run)
    return correct()


def _judge(run: Run) -> None:
    expected: list[Pair | str] = [*pairwise(run.levels)]
    wrong = (n for n, pairs in enumerate(run.epochs) if [*pairs] != expected)
    number = next(wrong, len(run.epochs) - 1)
    pairs = run.epochs[number]
    missing = Counter(expected) - Counter(pairs)
    there = f"in epoch {number + 1} {where(run.workers)}"
    seen = {
        "where": there,
        "arrived": len(expected) - missing.total(),
        "expected": len(expected),
        "levels": len(run.levels),
        "batch": _BATCH,
        "promised": run.promised,
    }
    if run.ending.kind == "IndexError":
        not_yet("index-error", **seen, error=run.ending.error)
    if "found <class 'NoneType'>" in run.ending.message:
        not_yet("sample-is-none", **seen, kind=run.ending.kind)
    ended_well(run.ending, there)
    held = zip_longest(map(repr, run.levels), run.left, fillvalue="missing")
    for position, (was, now) in enumerate(held):
        if was != now:
            not_yet("list-changed", **seen, position=position, was=was, now=now)
    for position, pair in enumerate(pairs):
        if pair not in expected:
            code = "not-a-pair" if isinstance(pair, str) else "not-neighbors"
            not_yet(code, **seen, position=position, sample=pair)
    for pair in Counter(pairs) - Counter(expected):
        times, due = pairs.count(pair), expected.count(pair)
        not_yet("too-often", **seen, pair=pair, times=times, due=due)
    for pair in missing:
        if times := pairs.count(pair):
            not_yet("too-seldom", **seen, pair=pair, times=times, due=expected.count(pair))
        not_yet("missing", **seen, pair=pair)
    if [*pairs] != expected:
        not_yet("other-order", **seen)
    if run.promised > len(pairs):
        not_yet("ends-early", **seen)
    if run.promised < len(pairs):
        not_yet("more-than-promised", **seen)


GRADER: Final = Grader(gather=gather, judge=judge, look=look, at_most=2 * _TIME * len(_RUNS) + 3)
