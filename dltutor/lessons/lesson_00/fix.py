"""Grade "00.fix", which asks for every pair of neighbors once and in order.

The check runs the answer on the notebook's levels with 2 workers, on a list of awkward levels with
0 and 4 workers, and for many epochs on a list of only two levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import torch
from torch.utils.data import Dataset

from dltutor.lessons.engine.endings import Ending, arrivals, check_ending, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made, theirs

Pair = tuple[int, ...]

#: A river's level in cm for each hour, as in the notebook.
LEVELS: Final = (52, 55, 61, 68, 72, 81, 90, 88, 79, 67, 60, 58, 56, 53, 50, 49, 47)

# Levels unlike the notebook's, to catch an answer that's right only for ordinary ones. Some repeat,
# one is 0, one is negative, and some are too large for 8 or for 16 bits.
_AWKWARD: Final = (31, 33, 33, 33, 44, 31, 0, -3, 301, 1027, 70001, 33, *range(61, 33, -1))
# For each run, the levels, the number of workers, and the number of epochs. With two levels, an
# epoch is short, so there's time for many.
_RUNS: Final = ((LEVELS, 2, 1), (_AWKWARD, 0, 2), ((33, 44), 0, 20), (_AWKWARD, 4, 1))
_BATCH: Final = 4
_TIME: Final = 6  # time limit in seconds to make a dataset, and again to run all of its epochs


class Pairs(Dataset[Pair]):
    """The notebook's starter for "00.fix", whose `__len__` promises one pair too many."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.levels = levels

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> Pair:
        return self.levels[index], self.levels[index + 1]


@dataclass(frozen=True)
class Run:
    """A record of what an answer delivered from one list.

    Args:
        levels: The levels in the list that the answer got.
        left: The same list after the run, to see whether the answer changed it.
        workers: Number of workers.
        promised: What `__len__` returned.
        epochs: Each epoch's samples in order of arrival, up to the epoch in which the run ended. If
            a sample isn't a pair, it's recorded as a string.
        ending: How the run ended.
    """

    levels: tuple[int, ...]
    left: tuple[int, ...]
    workers: int
    promised: int
    epochs: tuple[tuple[Pair | str, ...], ...]
    ending: Ending


def run(answer: type) -> Iterator[Run]:
    """Run the answer on each list, and yield a record of each run."""
    for levels, workers, count in _RUNS:
        given = list(levels)
        dataset = made(answer, given, call="Pairs(levels)", within=_TIME)
        with theirs():
            promised = len(dataset)
        how: dict[str, Any] = {"epochs": count, "batch_size": _BATCH, "within": _TIME}
        ending, epochs = arrivals(dataset, _pair, workers=workers, **how)
        yield Run(levels, tuple(given), workers, promised, epochs, ending)


def _pair(sample: Any) -> Pair | str:
    try:
        numbers = torch.as_tensor(sample)
    except Exception:  # torch raises if the sample is None or a string, for example
        return shown(sample)
    return tuple(numbers.tolist()) if numbers.shape == (2,) else shown(sample)


def judge(run: Run) -> None:
    """Raise `Rejected` unless the run finished with the right pairs in order in each epoch.

    The answer must also leave the list of levels unchanged, and `__len__` must not promise more
    pairs than arrived.
    """
    expected: tuple[Pair | str, ...] = (*pairwise(run.levels),)
    wrong = (n for n, pairs in enumerate(run.epochs) if pairs != expected)
    number = next(wrong, len(run.epochs) - 1)
    pairs = run.epochs[number]
    missing, extra = Counter(expected) - Counter(pairs), Counter(pairs) - Counter(expected)
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
    check_ending(run.ending, there)
    if run.left != run.levels:
        not_yet("list-changed", **seen)
    for position, pair in enumerate(pairs):
        if pair not in expected:
            code = "not-a-pair" if isinstance(pair, str) else "not-neighbors"
            not_yet(code, **seen, position=position, sample=pair)
    for pair in extra:
        times, due = pairs.count(pair), expected.count(pair)
        not_yet("too-often", **seen, pair=pair, times=times, due=due)
    for pair in missing:
        not_yet("missing", **seen, pair=pair)
    if pairs != expected:
        not_yet("other-order", **seen)
    if run.promised > len(pairs):
        not_yet("ends-early", **seen)


GRADER: Final = by_runs(
    run,
    judge,
    look=partial(a_fixed_class, starter=Pairs),
    at_most=2 * _TIME * len(_RUNS) + 3,
)
