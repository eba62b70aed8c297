"""Grade "13.fix", which asks for batches from workers that start only once.

The check doesn't measure time but counts what costs time: processes that start, tensors that arrive
in main with a batch, and samples made in main or too early.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from math import ceil
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.data.sentences import as_list
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_function, form, shown
from dltutor.lessons.engine.outcomes import Fault, correct, fault, not_yet, reject
from dltutor.lessons.engine.running import made, starts, still_running
from dltutor.lessons.lesson_13.costs import messages
from dltutor.lessons.lesson_13.helpers import Reviews
from dltutor.tables import Table

_BATCH: Final = 32  # reviews in a batch
_MOST: Final = 3  # the most tensors that may arrive in main with a batch
_LOOKED_AT: Final = 2  # the most samples that main may make by itself, to see what they look like
_AHEAD: Final = 32  # the most batches that workers may make before the first one arrives
_LONG: Final = 12  # time limit in seconds for each run
#: Each run's workers, reviews, and steps, which make more than two epochs. The check breaks off the
#: last run.
_RUNS: Final = ((2, 90, 8), (0, 64, 5), (4, 70, 60), (2, 90, 500))
_BROKEN_OFF: Final = 2  # steps before the check breaks off the last run


def starter(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    """Yield `steps` batches, each from a new iterator, as the starter code for "13.fix" does."""
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
    """A record of what one run of an answer delivered, and what the run cost.

    Args:
        workers: The number of workers that the answer got.
        steps: How many batches the check asked for, or took before it broke off the loop.
        epoch: How many batches an epoch has.
        batches: How many batches arrived.
        odd: What's wrong with a batch, or None.
        order: What's wrong with the order of the reviews, or None.
        started: How many processes the answer started.
        tensors: The most tensors that arrived in main with a batch.
        in_main: How many samples main made by itself.
        first: How many samples existed when the first batch arrived.
        left: What was still running afterward, such as "2 processes", or "".
    """

    workers: int
    steps: int
    epoch: int
    batches: int
    odd: Fault | None
    order: Fault | None
    started: int
    tensors: int
    in_main: int
    first: int
    left: str


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
    batches, first = list[Any](), [0]

    def go() -> None:
        coming = iter(answer(dataset, steps, workers))
        try:
            for batch in islice(coming, take or steps + 1):
                first[0] = first[0] or dataset.made()
                batches.append(batch)
        except RuntimeError as error:  # Python raises this for a StopIteration in a generator
            if not isinstance(error.__cause__, StopIteration):
                raise
        if hasattr(coming, "close"):
            coming.close()

    with starts() as started, messages() as tensors:
        made(go, call=f"my_batches(dataset, {steps}, {workers})", within=within)
        gc.collect()
    left = still_running()
    # Read the batches last, to see whether a later batch has changed an earlier one.
    odd, numbers = _read(batches, dataset)
    # A batch may take several messages. And main may have received more batches than the loop took,
    # but not more than the workers made.
    brought = [number for number in tensors if number]
    made_by_now = ceil(dataset.made() * ceil(reviews / _BATCH) / reviews)
    pieces = ceil(len(brought) / max(1, len(batches), made_by_now))
    return Run(
        workers,
        take or steps,
        ceil(reviews / _BATCH),
        len(batches),
        odd,
        None if odd else _order(numbers, reviews),
        len(started),
        max(brought, default=0) * pieces,
        dataset.made_here(),
        first[0],
        left,
    )


def _read(batches: list[Any], dataset: Reviews) -> tuple[Fault | None, list[list[int]]]:
    # Return what's wrong with a batch (or None), and the numbers of the reviews in each batch.
    pairs = zip(dataset.reviews, dataset.labels, strict=True)
    known = {tuple(words.tolist()): (at, label) for at, (words, label) in enumerate(pairs)}
    found: list[list[int]] = []
    for batch in batches:
        pair = isinstance(batch, (list, tuple)) and len(batch) == 2
        if not pair or not isinstance(batch[0], (list, tuple)):
            return fault("not-a-pair", batch=shown(batch)), []
        reviews, labels = batch
        if not _whole(labels) or labels.shape != (len(reviews),):
            return fault("other-labels", reviews=len(reviews), labels=_form(labels)), []
        if not 0 < len(reviews) <= _BATCH:
            return fault("other-size", reviews=len(reviews), most=_BATCH), []
        found.append([])
        for words, label in zip(reviews, labels.tolist(), strict=True):
            if not _whole(words) or words.ndim != 1:
                return fault("other-review", review=_form(words)), []
            number, own = known.get(tuple(words.tolist()), (None, 0))
            if number is None:
                return fault("unknown-review", words=len(words)), []
            if label != own:
                return fault("wrong-label", number=number, label=label), []
            found[-1].append(number)
    return None, found


def _whole(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.dtype == torch.int64


def _form(thing: Any) -> str:
    return form(thing) if isinstance(thing, torch.Tensor) else shown(thing)


def _order(batches: list[list[int]], size: int) -> Fault | None:
    # Return what's wrong with the order of the reviews, or None. An epoch has `size` reviews.
    numbers = [number for batch in batches for number in batch]
    epochs = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    for epoch in epochs:
        number, came = Counter(epoch).most_common(1)[0]
        if came > 1:
            missing = min(set(range(size)) - set(epoch))
            return fault("repeated-review", number=number, came=came, missing=missing)
    smaller = sum(len(batch) < _BATCH for batch in batches)
    if smaller > len(epochs):
        return fault("small-batches", smaller=smaller, batches=len(batches), size=_BATCH)
    long = [epoch for epoch in epochs if len(epoch) >= _BATCH]
    if any(epoch == sorted(epoch) for epoch in long):
        return fault("not-shuffled")
    if any(one[: len(other)] == other for one, other in combinations(long, 2)):
        return fault("same-order")
    return None


def run(answer: Callable[..., Any]) -> Iterator[Run]:
    """Yield a record of each run: with 2, 0, and 4 workers, and one that the check breaks off."""
    gc.collect()
    gc.freeze()  # makes collections quick, including the answer's own
    for workers, reviews, steps in _RUNS:
        take = _BROKEN_OFF if steps == _RUNS[-1][-1] else None
        yield _one_run(answer, workers, reviews, steps, take=take)


def judge(run: Run) -> None:
    """Raise `Rejected` unless the batches are right, cost little enough, and leave no process."""
    wrong = partial(not_yet, workers=run.workers)
    if run.odd:
        reject(run.odd, workers=run.workers)
    if run.batches > run.steps:
        wrong("too-many-batches", steps=run.steps)
    if run.batches < run.steps:
        wrong("too-few-batches", steps=run.steps, came=run.batches, epoch=run.epoch)
    if run.workers and run.started and run.in_main > _LOOKED_AT:
        wrong("made-in-main", made=run.in_main)
    if run.order:
        reject(run.order, workers=run.workers)
    if run.started != run.workers:
        code = "too-many-started" if run.started > run.workers else "too-few-started"
        wrong(code, started=run.started, batches=run.batches)
    if run.tensors > _MOST:
        wrong("many-tensors", tensors=run.tensors, most=_MOST)
    if run.first > _AHEAD * _BATCH:
        wrong("loaded-first", made=f"{run.first:,}", steps=run.steps)
    if run.left:
        wrong("left", left=run.left, batches=run.batches)


def counted(answer: Callable[..., Any]) -> Table:
    """Show what 8 batches from a function with 2 workers cost.

    Raises:
        Rejected: The function raised an exception, or took more than 60 s.
    """
    run = _one_run(answer, *_RUNS[0], within=60)
    once = "no" if run.order else "yes"
    rows = (
        ("processes started", f"{run.started}"),
        ("tensors sent with one batch", f"{run.tensors}"),
        ("each review once in an epoch", "can't tell from these batches" if run.odd else once),
    )
    return Table(f"{run.batches} batches with 2 workers", rows)


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda runs: correct(tensors=max(run.tensors for run in runs), most=_MOST),
    look=partial(a_fixed_function, starter=starter),
    at_most=4 * _LONG + 4,
)
