"""Grade "13.transfer", which asks for a function that measures throughput correctly.

The grader's clock moves only when the function takes a batch or ends workers. So the grader knows
exactly what the function must return, on any machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_function, shown
from dltutor.lessons.engine.outcomes import error_in_your_code, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_13.costs import BATCHES, Rehearsal

RUNS: Final = 3
_LONG: Final = 10  # time limit in seconds for each call
_CLOSE: Final = 1e-6
_CALLS: Final = ((0, 1, 4), [3, 0, 8, 2])  # the numbers of workers in each call


def starter(
    make_loader: Callable[[int], Iterable[Any]],
    counts: Iterable[int],
    clock: Callable[[], float] = time.perf_counter,
) -> Any:
    """Measure seconds per batch as the notebook's starter code for "13.transfer" does."""
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
    """A record of what a function did and returned.

    Args:
        counts: The numbers of workers that the check passed.
        order: The number of workers in each run, in order.
        taken: How many batches each run took.
        right: The right seconds per batch for each run.
        answer: Number of workers -> sorted measurements, or None if the function returned something
            else.
        returned: What the function returned, as a string.
        looked: How many times the function read the clock.
        crowded: How many runs began while the workers of another run were alive.
    """

    counts: tuple[int, ...]
    order: tuple[int, ...]
    taken: tuple[int, ...]
    right: tuple[float, ...]
    answer: dict[int, tuple[float, ...]] | None
    returned: str
    looked: int
    crowded: int


def run(answer: Callable[..., Any]) -> Iterator[Measured]:
    """Yield a record of each call of the function, which gets loaders of known speed."""
    gc.collect()
    gc.freeze()  # makes collections quick, including the answer's own
    for counts in _CALLS:
        yield _called(answer, counts)


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
    try:
        return {int(workers): tuple(sorted(map(float, runs))) for workers, runs in returned.items()}
    except (AttributeError, TypeError, ValueError):
        return None


def judge(seen: Measured) -> None:
    """Raise `Rejected` unless the function measured correctly, and ran the loaders as it should.

    It should run each number of workers once before it runs any of them again, `RUNS` times in all,
    take as many batches as the exercise says, and end a run's workers before the next run.
    """
    answer, numbers, size = seen.answer, set(seen.counts), len(seen.counts)
    wrong = partial(not_yet, counts=list(seen.counts))
    if answer is None:
        returned = {"counts": list(seen.counts), "returned": seen.returned, "runs": RUNS}
        error_in_your_code("other-result", **returned)
    if answer.keys() != numbers:
        wrong("other-counts", measured=sorted(answer))
    for workers, runs in answer.items():
        if len(runs) != RUNS:
            wrong("other-number-of-runs", measured=len(runs), workers=workers, runs=RUNS)
    if len(seen.order) != RUNS * size:
        wrong("other-epochs", epochs=len(seen.order), runs=RUNS, right=RUNS * size)
    if any(set(seen.order[at : at + size]) != numbers for at in range(0, len(seen.order), size)):
        wrong("not-in-turns", order=list(seen.order))
    for workers, taken in zip(seen.order, seen.taken, strict=True):
        first = max(1, workers)
        if taken != first + BATCHES:
            right = {"first": first, "timed": BATCHES, "right": first + BATCHES}
            wrong("other-batches", taken=taken, workers=workers, **right)
    if seen.crowded:
        wrong("crowded", crowded=seen.crowded, runs=len(seen.order))
    for workers in seen.counts:
        pairs = zip(seen.order, seen.right, strict=True)
        right_seconds = sorted(seconds for number, seconds in pairs if number == workers)
        for got, seconds in zip(answer[workers], right_seconds, strict=True):
            if abs(got - seconds) > _CLOSE:
                code = "other-seconds" if seen.looked else "never-read-the-clock"
                wrong(code, got=f"{got:.7g}", workers=workers, seconds=f"{seconds:.7g}")


GRADER: Final = by_runs(
    run,
    judge,
    look=partial(a_fixed_function, starter=starter),
    at_most=2 * _LONG + 6,
)
