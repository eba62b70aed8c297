"""What a learner's dataset of neighbouring levels delivers: run, and matched pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.kit.answers import failed_in_loader
from dltutor.lessons.kit.outcome import Result, error_in_your_code, not_yet
from dltutor.observation import Observation, observe

Pair = tuple[int, int]

PATIENCE: Final = 10  # seconds for one epoch


class Pairs(Dataset[Pair]):
    """The starter of "00.fix": a level and the one an hour later."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.levels = levels

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> Pair:
        return self.levels[index], self.levels[index + 1]


def problem_with(dataset_class: type, levels: tuple[int, ...]) -> Result | None:
    """Run one epoch of an answer, and say what is wrong with what it brings.

    Args:
        dataset_class: The answer: takes a list of levels.
        levels: The levels, none of them twice, so that a pair tells where it is from.

    Returns:
        The result to show, or None where every pair came, once and in order.
    """
    dataset: Dataset[Pair] = dataset_class(list(levels))
    promised = len(dataset)  # type: ignore[arg-type]  # a Dataset need not have a length; this has
    got: list[Pair] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            got.extend(_pairs_in(batch))

    # An answer is typed into a notebook, so its workers have to be forked.
    loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")
    observation = observe(loader, deadline=PATIENCE, consume=collect)
    expected = list(pairwise(levels))
    arrived = len(set(got) & set(expected))
    came = f"From {len(levels)} levels, {arrived} of {len(expected)} pairs came"
    if observation.end == "raised":
        return _raised(observation, came, promised)
    if observation.end != "finished":
        return not_yet(f"{came}. Then: {observation.story().title}.")
    wrong = _wrong_pairs(got, levels, came, promised)
    return not_yet(wrong) if wrong else None


def _pairs_in(batch: Any) -> list[Pair]:
    if (
        isinstance(batch, (list, tuple))
        and len(batch) == 2
        and all(isinstance(part, torch.Tensor) and part.dim() == 1 for part in batch)
    ):
        first, second = (part.tolist() for part in batch)
        return list(zip(first, second, strict=True))
    raise TypeError("a sample must be two numbers: a level, and the one an hour later")


def _raised(observation: Observation, came: str, promised: int) -> Result:
    kind, message = observation.chain[0]
    if observation.raised_in_worker == "IndexError":
        return not_yet(
            f"{came}, then still `IndexError` in W{observation.failed_worker}. The loader asks "
            f"for as many samples as `__len__` promises: {promised}."
        )
    if observation.raised_in_worker and "NoneType" in message:
        return not_yet(
            f"{came}, then `{kind}`: a sample is None, which no batch can hold. There is no such "
            "pair; who promised it?"
        )
    if observation.raised_in_worker is None and not observation.traceback:
        return error_in_your_code(f"{message}.")  # what _pairs_in has to say
    return failed_in_loader(observation)


def _wrong_pairs(got: list[Pair], levels: tuple[int, ...], came: str, promised: int) -> str:
    expected = list(pairwise(levels))
    if invented := [pair for pair in got if pair not in expected]:
        how = _how_invented(invented[0], levels, came_first=got[0] == invented[0])
        return f"No error any more, but {invented[0]} came, which nobody measured. {how}"
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
