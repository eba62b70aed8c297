"""Grade "13.fix": batches for a training loop, by workers that are started once.

Nothing is timed. What costs is counted: processes that are started, tensors that come to main with
a batch, samples that main makes itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.failures.material.sentences import as_list
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, is_a_loader
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
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
        workers: How many it was told to use.
        steps: How many batches it was asked for, or were taken of more.
        batches: How many came.
        odd: What is wrong with a batch, as a sentence, or "".
        order: What is wrong with the order, likewise.
        started: How many processes were started.
        tensors: How many came to main with a batch.
        in_main: How many samples main made itself.
        left: What still runs afterwards: "2 processes", or "".
        broken_off: Whether no more batches were asked for after some steps.
    """

    workers: int
    steps: int
    batches: int
    odd: str = ""
    order: str = ""
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
    odd = order_wrong = ""
    try:  # they are read last of all: what comes later must not change them
        numbers = [numbers_in(batch, reviews_known) for batch in batches]
        order_wrong = order(numbers, dataset.times())
    except Odd as said:
        odd = str(said)
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
    """Run the answer with 2, 0 and 4 workers, and break one run off; stop at what is not right."""
    gc.collect()
    gc.freeze()  # collections are quick then, the answer's own too
    runs: list[Run] = []
    for workers, reviews, steps in _RUNS:
        take = _BROKEN_OFF if steps == _RUNS[-1][-1] else None
        runs.append(_one_run(answer, workers, reviews, steps, take=take))
        if _wrong(runs[-1]):
            break
    return tuple(runs)


def _wrong(run: Run) -> str:
    came = "more" if run.batches > run.steps else f"{run.batches}"
    when = "the loop was broken off" if run.broken_off else "the last batch had come"
    faults = (
        (run.odd, f"{run.odd} What does your function do with what `collate_fn` has sent?"),
        (
            run.batches != run.steps,
            f"{run.steps} batches were asked for, and {came} came. Where does an epoch end?",
        ),
        (
            run.workers and run.started and run.in_main > _LOOKED_AT,
            f"main made {run.in_main} samples itself. Who should make them?",
        ),
        (run.order, run.order),
        (
            run.started != run.workers,
            f"{run.started} processes were started for {run.batches} batches. Which of your lines "
            "starts them, and how often does it run?",
        ),
        (
            run.tensors > MOST,
            f"{run.tensors} tensors came to main with one batch, and {MOST} are allowed. What "
            "could be one tensor, and where could main take it apart again?",
        ),
        (
            run.left,
            f"{run.left} still ran when {when}. Who still holds the loader or its iterator?",
        ),
    )
    return next((f"with {run.workers} workers, {told}" for wrong, told in faults if wrong), "")


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if every run was right, and cost no more than it must."""
    for run in runs:
        if wrong := _wrong(run):
            not_yet(wrong)
    most = max(run.tensors for run in runs)
    return correct(
        "As many batches as steps, every review once in each epoch. As many processes as workers "
        f"were started, once; {most} tensor{'s' * (most != 1)} came with a batch; nothing is left, "
        "even when the loop is broken off."
    )


def counted(answer: Callable[..., Any]) -> Table:
    """What 8 batches cost that a function delivers with 2 workers, in counts."""
    run = _one_run(answer, *_RUNS[0], within=60)
    rows = (
        ("processes started", f"{run.started}"),
        ("tensors sent with one batch", f"{run.tensors}"),
        ("each review once in an epoch", run.odd or ("no" if run.order else "yes")),
    )
    return Table(f"{run.batches} batches with 2 workers", rows)


def _look(answer: Any) -> Callable[..., Any]:
    if isinstance(answer, type) and not is_a_loader(answer):
        return answer  # a class whose objects are iterated does as well
    return a_fixed_function(answer, starter)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=_look,
    runs="runs your function with 2, 0 and 4 workers, and breaks one run off",
    at_most=4 * _LONG + 4,
)
