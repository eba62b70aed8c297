"""Grade "13.transfer": a function that measures throughput by number of workers, and is not fooled.

The clock is the grader's, and goes on only when a loader is asked for a batch: what the function
must return is known to the last digit, on any machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import fsum
from operator import index
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, shown
from dltutor.lessons.engine.outcomes import Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_13.costs import BATCHES, Rehearsal

RUNS: Final = 3
_LONG: Final = 10  # seconds
_CLOSE: Final = 1e-6
_CALLS: Final = ((0, 1, 4), [3, 0, 8, 2])  # the numbers that it is called with


def starter(
    make_loader: Callable[[int], Iterable[Any]],
    counts: Iterable[int],
    clock: Callable[[], float] = time.perf_counter,
) -> Any:
    """As the notebook has it."""
    measured: dict[int, list[float]] = {}
    for workers in counts:
        loader = make_loader(workers)
        measured[workers] = []
        for _ in range(3):
            began = clock()
            batches = len(list(loader))
            measured[workers].append((clock() - began) / batches)
    return measured


@dataclass(frozen=True)
class Measured:
    """What a function returned, and what it did for it.

    Args:
        counts: The numbers of workers that it was called with.
        order: Those that it ran, run by run.
        taken: How many batches each run took.
        right: The seconds for a batch of each run, as they should be measured.
        answer: Number of workers -> what was returned for it, sorted; None if it is no such dict.
        returned: What was returned, in words.
        looked: How often it read the clock.
        crowded: How many runs began while the workers of another were alive.
    """

    counts: tuple[int, ...]
    order: tuple[int, ...]
    taken: tuple[int, ...]
    right: tuple[float, ...]
    answer: dict[int, tuple[float, ...]] | None
    returned: str
    looked: int
    crowded: int


def gather(answer: Callable[..., Any]) -> tuple[Measured, ...]:
    """Call the function with loaders whose times are known, twice; stop at what is not right."""
    gc.collect()
    gc.freeze()  # collections are quick then, the answer's own too
    calls: list[Measured] = []
    for counts in _CALLS:
        calls.append(seen := _called(answer, counts))
        if seen.answer is None or _wrong(seen, seen.answer):
            break
    return tuple(calls)


def _called(answer: Callable[..., Any], counts: Sequence[int]) -> Measured:
    rehearsal = Rehearsal()
    call = f"my_measurement(make_loader, {counts}, clock)"
    returned = made(answer, rehearsal.make, copy(counts), rehearsal.clock, call=call, within=_LONG)
    return Measured(
        tuple(counts),
        tuple(each.workers for each in rehearsal.runs),
        tuple(each.taken for each in rehearsal.runs),
        tuple(each.right for each in rehearsal.runs),
        _read(returned),
        shown(returned),
        rehearsal.looked,
        rehearsal.crowded,
    )


def _read(returned: Any) -> dict[int, tuple[float, ...]] | None:
    if not isinstance(returned, dict):
        return None
    if not all(
        isinstance(runs, (list, tuple, np.ndarray, torch.Tensor)) for runs in returned.values()
    ):
        return None
    try:
        return {
            index(workers): tuple(sorted(fsum([each]) for each in runs))  # float() takes "0.1" too
            for workers, runs in returned.items()
        }
    except (TypeError, ValueError, RuntimeError):
        return None


def judge(calls: tuple[Measured, ...]) -> Result:
    """Correct if the function returned the seconds that the clock says, and ran as asked."""
    for seen in calls:
        called = f"called with {list(seen.counts)}, your function"
        if seen.answer is None:
            error_in_your_code(
                f"{called} returns {seen.returned}, not a dict: number of workers -> list of "
                f"{RUNS} numbers."
            )
        if wrong := _wrong(seen, seen.answer):
            not_yet(f"{called} {wrong}")
    return correct(
        "Every number is measured three times, in turns; the clock starts when each worker has "
        "delivered, and stops after 16 batches more; the workers of one run have ended before the "
        "next begins."
    )


def _with(workers: int) -> str:
    return f"{workers} worker{'s' * (workers != 1)}"


def _wrong(seen: Measured, answer: dict[int, tuple[float, ...]]) -> str:
    numbers, size = set(seen.counts), len(seen.counts)
    if answer.keys() != numbers:
        return f"returns measurements for {sorted(answer)}."
    for workers, runs in answer.items():
        if len(runs) != RUNS:
            return f"returns {len(runs)} measurements for {_with(workers)}."
    if len(seen.order) != RUNS * size:
        return (
            f"began {len(seen.order)} epochs. {RUNS} runs of each number are {RUNS * size}: what "
            "is an epoch begun for?"
        )
    if any(set(seen.order[at : at + size]) != numbers for at in range(0, len(seen.order), size)):
        return (
            f"ran the numbers in the order {list(seen.order)}. The machine got busier meanwhile: "
            "which numbers suffer from it, and how would all suffer alike?"
        )
    for workers, taken in zip(seen.order, seen.taken, strict=True):
        first = max(1, workers)
        if taken != first + BATCHES:
            return (
                f"took {taken} batches in a run with {_with(workers)}. It is {first} to begin "
                f"with, and {BATCHES} that are timed: {first + BATCHES}."
            )
    if seen.crowded:
        return (
            f"began {seen.crowded} runs while the workers of another were alive. Which variable "
            "still holds their iterator when the next begins?"
        )
    for workers in seen.counts:
        pairs = zip(seen.order, seen.right, strict=True)
        right = sorted(seconds for number, seconds in pairs if number == workers)
        for got, seconds in zip(answer[workers], right, strict=True):
            if abs(got - seconds) > _CLOSE:
                clock = "" if seen.looked else " It never read the `clock` that it was given."
                return (
                    f"returns {got:.7g} s for a batch of a run with {_with(workers)}; by the "
                    f"clock it is {seconds:.7g} s.{clock} Between which lines is the clock read, "
                    "and by how many batches is it divided?"
                )
    return ""


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=starter),
    runs="calls your function twice, with loaders and a clock whose times are known",
    at_most=2 * _LONG + 6,
)
