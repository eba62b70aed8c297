"""Grade "00.fix": every pair of neighbors arrives, once and in order, with any number of workers.

The answer is run on the levels of the notebook and on others, with 2 workers; then with 0 and
with 4, where only the pairs are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_00.material import LEVELS, Pair, Pairs
from dltutor.observation import observe

_OTHER_LEVELS: Final = (31, 33, 38, 44, 43, 40, 37, 36, 35, 34, 32, 30)
_RUNS: Final = ((LEVELS, 2), (_OTHER_LEVELS, 2), (LEVELS, 0), (LEVELS, 4))  # levels, workers
_EPOCH: Final = 6  # seconds for one epoch
_MAKING: Final = 2  # seconds for making the dataset


@dataclass(frozen=True)
class Epoch:
    """What an answer delivered in one epoch.

    Args:
        levels: What it was made from; no level occurs twice, so a pair tells where it is from.
        workers: How many the loader had.
        promised: What `__len__` says.
        pairs: What arrived, in order.
        run: How the epoch ended.
    """

    levels: tuple[int, ...]
    workers: int
    promised: int
    pairs: tuple[Pair, ...]
    run: Ending


class _NoPairs(TypeError):
    pass


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(answer, Pairs)


def gather(answer: type) -> tuple[Epoch, ...]:
    """An epoch for each kind of levels and number of workers, up to the first that is not right."""
    epochs: list[Epoch] = []
    for levels, workers in _RUNS:
        epochs.append(_epoch(answer, levels, workers))
        if epochs[-1].pairs != tuple(pairwise(levels)):
            break
    return tuple(epochs)


def _epoch(answer: type, levels: tuple[int, ...], workers: int) -> Epoch:
    call = f"{answer.__name__}(levels)"
    dataset = made(answer, list(levels), call=call, within=_MAKING)
    with theirs():
        promised = len(dataset)
    got: list[Pair] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            got.extend(_pairs_in(batch))

    with theirs():
        loader = DataLoader(
            dataset,
            batch_size=2,
            num_workers=workers,
            # An answer is typed into a notebook, so its workers have to be forked.
            multiprocessing_context="fork" if workers else None,
        )
    run = ending(observe(loader, deadline=_EPOCH, consume=collect))
    return Epoch(levels, workers, promised, tuple(got), run)


def _pairs_in(batch: Any) -> list[Pair]:
    if (
        isinstance(batch, (list, tuple))
        and len(batch) == 2
        and all(isinstance(part, torch.Tensor) and part.dim() == 1 for part in batch)
    ):
        first, second = (part.tolist() for part in batch)
        return list(zip(first, second, strict=True))
    raise _NoPairs("a sample must be two numbers: a level, and the one an hour later")


def judge(epochs: tuple[Epoch, ...]) -> Result:
    """Correct if every pair came in every epoch."""
    for epoch in epochs:
        _judge(epoch)
    one, other = (len(levels) for levels in (LEVELS, _OTHER_LEVELS))
    return correct(
        f"{one - 1} of {one - 1} pairs arrive from {one} levels and {other - 1} of {other - 1} "
        f"from {other}, each once and in order, with 0, 2 and 4 workers. `__len__` promises what "
        "`__getitem__` can keep."
    )


def _judge(epoch: Epoch) -> None:
    expected = list(pairwise(epoch.levels))
    arrived = len({*epoch.pairs} & {*expected})
    workers = "" if epoch.workers == 2 else f"With {epoch.workers} workers: "
    came = f"{workers}From {len(epoch.levels)} levels, {arrived} of {len(expected)} pairs came"
    if epoch.run.end == "raised":
        _say_what_was_raised(epoch.run, came, epoch.promised)
    ended_well(epoch.run, came)
    if wrong := _wrong_pairs(epoch, expected, came):
        not_yet(wrong)


def _say_what_was_raised(run: Ending, came: str, promised: int) -> None:
    if run.raised_in_worker == "IndexError":
        not_yet(
            f"{came}, then still `IndexError` in W{run.failed_worker}. The loader asks for as many "
            f"samples as `__len__` promises: {promised}."
        )
    if run.raised_in_worker and "NoneType" in run.message:
        not_yet(
            f"{came}, then `{run.kind}`: a sample is None, which no batch can hold. There is no "
            "such pair; who promised it?"
        )
    if run.kind == _NoPairs.__name__:
        error_in_your_code(f"{run.message.partition(': ')[2]}.")
    error_in_your_code(run.error)


def _wrong_pairs(epoch: Epoch, expected: list[Pair], came: str) -> str:
    got, promised = list(epoch.pairs), epoch.promised
    if invented := [pair for pair in got if pair not in expected]:
        how = _how_invented(invented[0], epoch.levels, came_first=got[0] == invented[0])
        workers = "" if epoch.workers == 2 else f" with {epoch.workers} workers"
        return f"No error any more, but {invented[0]} came{workers}, which nobody measured. {how}"
    if missing := [pair for pair in expected if pair not in got]:
        return f"{came}. {missing[0]} did not. No error says so: `__len__` promises {promised}."
    if repeated := [pair for pair in expected if got.count(pair) > 1]:
        return (
            f"{came}, {repeated[0]} more than once. The loader asks for as many samples as "
            f"`__len__` promises: {promised}."
        )
    if promised != len(got):
        return (
            f"{came}, and `__len__` promises {promised}. The epoch ended early and without an "
            "error: a loader takes StopIteration for its end."
        )
    return f"{came}, in another order than they were measured." if got != expected else ""


def _how_invented(pair: Pair, levels: tuple[int, ...], *, came_first: bool) -> str:
    if pair == (levels[-1], levels[0]) and came_first:
        return "Before the first level there is none, and `levels[-1]` reads the last."
    if pair == (levels[-1], levels[0]):
        return "It joins the last level to the first, as if time went in a circle."
    if pair[0] == pair[1] and pair[0] in levels:
        return "It gives one level twice, as if an hour had passed without a change."
    return "Its numbers are not two levels one hour apart."


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="four epochs, with 2, 0 and 4 workers",
    at_most=len(_RUNS) * (_EPOCH + _MAKING) + 3,
)
