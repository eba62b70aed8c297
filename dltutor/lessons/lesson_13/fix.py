"""Grade "13.fix": batches for a training loop, from workers that are started once.

The check times nothing. It counts what costs time: processes that are started, tensors that arrive
in main with a batch, and samples that main makes by itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.failures.data.sentences import as_list
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, is_a_loader
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet
from dltutor.lessons.engine.running import made, still_running
from dltutor.lessons.lesson_13.costs import BATCH, Odd, known, messages, numbers_in, order, starts
from dltutor.lessons.lesson_13.material import Reviews
from dltutor.tables import Table

MOST: Final = 3  # tensors that may come to main with a batch
_LOOKED_AT: Final = 2  # samples that main may make itself, to see what they are like
_LONG: Final = 12  # seconds for each run
#: Workers, reviews and steps of each run: two epochs and more. The last is broken off.
_RUNS: Final = ((2, 90, 8), (0, 64, 5), (4, 70, 60), (2, 90, 500))
_BROKEN_OFF: Final = 2  # steps of the last run


def starter(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    """As the notebook has it."""
    loader: DataLoader[Any] = DataLoader(
        dataset,
        32,
        shuffle=True,
        num_workers=workers,
        collate_fn=as_list,
        multiprocessing_context="fork" if workers else None,
    )
    for _ in range(steps):
        yield next(iter(loader))


@dataclass(frozen=True)
class Run:
    """What one run of an answer delivered, and what it cost.

    Args:
        workers: How many it was given.
        steps: How many batches the check asked for, or took before it broke off the loop.
        batches: How many came.
        odd: What's wrong with a batch.
        order: What's wrong with the order.
        started: How many processes were started.
        tensors: How many arrived in main with a batch.
        in_main: How many samples main made by itself.
        left: What was still running afterwards: "2 processes", or "".
        broken_off: Whether the check stopped asking for batches after some steps.
    """

    workers: int
    steps: int
    batches: int
    odd: Fault | None = None
    order: Fault | None = None
    started: int = 0
    tensors: int = 0
    in_main: int = 0
    left: str = ""
    broken_off: bool = False


def _one_run(
    answer: Callable[..., Any],
    workers: int,
    reviews: int,
    steps: int,
    *,
    take: int | None = None,
    within: float = _LONG,
) -> Run:
    dataset = Reviews(reviews, seed=reviews + workers)
    reviews_known = known(dataset)
    batches: list[Any] = []

    def go() -> None:
        coming = iter(answer(dataset, steps, workers))
        batches.extend(islice(coming, take or steps + 1))
        if hasattr(coming, "close"):
            coming.close()

    with starts() as started, messages() as tensors:
        made(go, call=f"my_batches(dataset, {steps}, {workers})", within=within)
        gc.collect()
    left = still_running()
    odd = order_wrong = None
    try:  # Batches are read last, because a later batch must not change an earlier one.
        numbers = [numbers_in(batch, reviews_known) for batch in batches]
        order_wrong = order(numbers, dataset.times())
    except Odd as found:
        odd = found.fault
    return Run(
        workers,
        take or steps,
        len(batches),
        odd,
        order_wrong,
        len(started),
        _with_a_batch(tensors, len(batches), dataset.times()),
        len(dataset.made),
        left,
        take is not None,
    )


def _with_a_batch(tensors: list[int], batches: int, times: list[int]) -> int:
    # A batch may come in several messages. And an answer may read far ahead, so the batches that
    # came are not all that main has read: but the workers made no less.
    bring = [number for number in tensors if number]
    made_by_now = ceil(sum(times) * ceil(len(times) / BATCH) / len(times))
    pieces = ceil(len(bring) / max(1, batches, made_by_now))
    return max(bring, default=0) * pieces


def gather(answer: Callable[..., Any]) -> tuple[Run, ...]:
    """Run the answer with 2, 0, and 4 workers, and break off one run; stop at a wrong run."""
    gc.collect()
    gc.freeze()  # This makes collections quick, including those of the answer.
    runs: list[Run] = []
    for workers, reviews, steps in _RUNS:
        take = _BROKEN_OFF if steps == _RUNS[-1][-1] else None
        runs.append(_one_run(answer, workers, reviews, steps, take=take))
        if _wrong(runs[-1]):
            break
    return tuple(runs)


def _wrong(run: Run) -> Fault | None:
    if run.odd:
        return run.odd
    if run.batches != run.steps:
        code = "too-many-batches" if run.batches > run.steps else "too-few-batches"
        return fault(code, steps=run.steps, came=run.batches)
    if run.workers and run.started and run.in_main > _LOOKED_AT:
        return fault("made-in-main", made=run.in_main)
    if run.order:
        return run.order
    if run.started != run.workers:
        code = "too-many-started" if run.started > run.workers else "too-few-started"
        return fault(code, started=run.started, batches=run.batches)
    if run.tensors > MOST:
        return fault("many-tensors", tensors=run.tensors, most=MOST)
    if run.left:
        code = "left-when-broken-off" if run.broken_off else "left-at-the-end"
        return fault(code, left=run.left)
    return None


def judge(runs: tuple[Run, ...]) -> Result:
    """Accept if every run was right and cost no more than it had to."""
    for run in runs:
        if wrong := _wrong(run):
            not_yet(wrong.code, workers=run.workers, **wrong.fields)
    return correct(tensors=max(run.tensors for run in runs), most=MOST)


def counted(answer: Callable[..., Any]) -> Table:
    """Count what 8 batches cost that a function delivers with 2 workers."""
    run = _one_run(answer, *_RUNS[0], within=60)
    once = "no" if run.order else "yes"
    rows = (
        ("processes started", f"{run.started}"),
        ("tensors sent with one batch", f"{run.tensors}"),
        ("each review once in an epoch", "can't tell from these batches" if run.odd else once),
    )
    return Table(f"{run.batches} batches with 2 workers", rows)


def _look(answer: Any) -> Callable[..., Any]:
    if isinstance(answer, type) and not is_a_loader(answer):
        return answer  # A class works too, if a loop can iterate over its objects.
    return a_fixed_function(answer, starter)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=_look,
    at_most=4 * _LONG + 4,
)
