"""Grade "13.transfer", which asks for a function that measures throughput correctly.

The grader's clock moves only when the function takes a batch or ends workers. So the grader knows
exactly what the function must return, on any machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, shown
from dltutor.lessons.engine.outcomes import correct, error_in_your_code, not_yet
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


def gather(answer: Callable[..., Any]) -> None:
    """Call the function twice with loaders of known speed.

    Raises:
        Rejected: The function measured wrongly, or didn't run the loaders as it should.
    """
    gc.collect()
    gc.freeze()  # makes collections quick, including the answer's own
    for counts in _CALLS:
        rehearsal = Rehearsal()
        call = f"my_measurement(make_loader, {counts}, clock)"
        arguments = rehearsal.make, copy(counts), rehearsal.clock
        judge(rehearsal, counts, made(answer, *arguments, call=call, within=_LONG))


def judge(rehearsal: Rehearsal, counts: Sequence[int], returned: Any) -> None:
    """Raise `Rejected` unless the function measured correctly, and ran the loaders as it should.

    The function should run each number of workers once before it runs any of them again, `RUNS`
    times in all, take as many batches as the exercise says, and end a run's workers before the next
    run.
    """
    numbers, size, order = {*counts}, len(counts), [run.workers for run in rehearsal.runs]
    wrong = partial(not_yet, counts=[*counts])
    try:
        answer = {int(workers): sorted(map(float, runs)) for workers, runs in returned.items()}
    except (AttributeError, TypeError, ValueError):
        error_in_your_code("other-result", counts=[*counts], returned=shown(returned), runs=RUNS)
    if answer.keys() != numbers:
        wrong("other-counts", measured=sorted(answer))
    for workers, runs in answer.items():
        if len(runs) != RUNS:
            wrong("other-number-of-runs", measured=len(runs), workers=workers, runs=RUNS)
    if len(order) != RUNS * size:
        wrong("other-epochs", epochs=len(order), runs=RUNS, right=RUNS * size)
    if any({*order[at : at + size]} != numbers for at in range(0, len(order), size)):
        wrong("not-in-turns", order=order)
    for run in rehearsal.runs:
        first = max(1, run.workers)
        if run.taken != first + BATCHES:
            right = {"first": first, "timed": BATCHES, "right": first + BATCHES}
            wrong("other-batches", taken=run.taken, workers=run.workers, **right)
    if rehearsal.crowded:
        wrong("crowded", crowded=rehearsal.crowded, runs=len(order))
    for workers in counts:
        right_seconds = sorted(run.right for run in rehearsal.runs if run.workers == workers)
        for got, seconds in zip(answer[workers], right_seconds, strict=True):
            if abs(got - seconds) > _CLOSE:
                code = "other-seconds" if rehearsal.looked else "never-read-the-clock"
                wrong(code, got=f"{got:.7g}", workers=workers, seconds=f"{seconds:.7g}")


GRADER: Final = Grader(
    gather,
    lambda _: correct(),
    look=partial(a_fixed_function, starter=starter),
    at_most=2 * _LONG + 6,
)
