"""Grade "12.transfer", which asks for a stream that all workers of all ranks share.

One process makes a dataset for each rank, and runs each dataset in its own loader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from torch.utils.data import IterableDataset, get_worker_info

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, shown, whole_number
from dltutor.lessons.engine.outcomes import error_in_your_code, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_12.job import ByWorker

_LONG: Final = 6  # time limit in seconds for making each dataset, and for running it
_BATCH: Final = 4
_ENOUGH: Final = 30  # a rank with this many records should get some from each worker


@dataclass(frozen=True)
class Plan:
    """A plan for a run: the number of ranks, workers for each rank, records, and epochs."""

    ranks: int
    workers: int
    records: int
    epochs: int = 1

    def __str__(self) -> str:
        return f"`ranks={self.ranks}, num_workers={self.workers}, records={self.records}`"


PLANS: Final = (
    Plan(2, 2, 65, epochs=2),
    Plan(3, 0, 65),
    Plan(2, 4, 66),
    Plan(3, 4, 92),
    Plan(2, 2, 0),
    Plan(1, 2, 65),
)

Came = tuple[tuple[int, str], ...]  # a batch: the worker that gave each record, and the record


Rank = tuple[Ending, tuple[tuple[Came, ...], ...]]  # how its run ended, and each epoch's batches


@dataclass(frozen=True)
class Run:
    """A record of what a plan delivered, up to the first rank whose run didn't finish."""

    plan: Plan
    ranks: tuple[Rank, ...]


def records_of(plan: Plan) -> list[int]:
    """Return the records of a plan, which are different multiples of 12.

    A class that deals out such records by value, not by position, leaves workers idle.
    """
    return [12 * (1000 * plan.records + 37 * number % 1009) for number in range(plan.records)]


def run(answer: type) -> Iterator[Run]:
    """Run the class with each of `PLANS`, and yield a record of the batches that arrived.

    Raises:
        Rejected: A dataset can't be made.
    """
    for plan in PLANS:
        yield _run(answer, plan)


def _run(answer: type, plan: Plan) -> Run:
    def read() -> Iterator[int]:
        yield from records_of(plan)

    call = f"{answer.__name__}(read, rank, ranks)"
    datasets = [
        made(answer, read, rank, plan.ranks, call=call, within=_LONG) for rank in range(plan.ranks)
    ]
    ranks: list[Rank] = []
    for dataset in datasets:
        epochs: list[tuple[Came, ...]] = []

        def epoch(loader: Any, epochs: list[tuple[Came, ...]] = epochs) -> None:
            epochs.append(tuple(loader))

        end = run_loader(
            dataset,
            epoch,
            workers=plan.workers,
            within=_LONG,
            epochs=plan.epochs,
            batch_size=_BATCH,
            collate_fn=_collate,
        )
        ranks.append((end, tuple(epochs)))
        if end.end != "finished":
            break
    return Run(plan, tuple(ranks))


def _collate(records: list[Any]) -> Came:  # called in a worker, or in main without workers
    info = get_worker_info()
    numbers = [None if isinstance(each, str) else whole_number(each) for each in records]
    pairs = zip(numbers, records, strict=True)
    return tuple(
        (info.id if info else 0, shown(raw) if number is None else str(number))
        for number, raw in pairs
    )


def judge(run: Run) -> None:
    """Raise `Rejected` unless the ranks get equal shares of the records, in equally many batches.

    Also reject a run that failed, a record that repeats or isn't in the plan, and an idle worker.
    """
    for number, (end, _) in enumerate(run.ranks):
        check_ending(end, f"with {run.plan}, on rank {number}")
    for epoch, ranks in enumerate(zip(*(epochs for _, epochs in run.ranks), strict=True)):
        _judge_epoch(run.plan, epoch, ranks)


def _judge_epoch(plan: Plan, epoch: int, ranks: Sequence[tuple[Came, ...]]) -> None:
    wrong = partial(not_yet, plan=plan, epoch=epoch)
    gave = [[pair for batch in batches for pair in batch] for batches in ranks]
    came = Counter(record for rank in gave for _, record in rank)
    wanted = {str(record) for record in records_of(plan)}
    if strange := came.keys() - wanted:
        wrong("no-such-record", record=min(strange))
    if twice := [record for record, times in came.items() if times > 1]:
        places = [
            f"W{worker} of rank {rank}" if plan.workers else f"main of rank {rank}"
            for rank, pairs in enumerate(gave)
            for worker, record in pairs
            if record == twice[0]
        ]
        wrong(
            "repeated-records",
            repeated=len(twice),
            records=len(came),
            record=twice[0],
            places=" and ".join(places[:4]),
        )
    counts = [len(rank) for rank in gave]
    share = plan.records // plan.ranks
    if counts != [share] * plan.ranks:
        code = "uneven-ranks"
        if epoch and not all(counts):
            code = "used-up"
        elif max(counts) == min(counts) < share:
            code = "too-few-records"
        left_out = plan.records - share * plan.ranks
        wrong(code, counts=_listed(counts), share=share, left_out=left_out)
    steps = [len(batches) for batches in ranks]
    if len({*steps}) > 1:
        wrong("uneven-batches", steps=_listed(steps), size=_BATCH)
    for rank, pairs in enumerate(gave):
        idle = {*range(plan.workers)} - {worker for worker, _ in pairs}
        if idle and len(pairs) >= _ENOUGH:
            wrong("idle-worker", worker=min(idle), rank=rank, records=len(pairs))


def _listed(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))


def look(answer: Any) -> type:
    """Return the answer if it's an IterableDataset class and no longer the starter.

    Otherwise, raise `Rejected`.
    """
    fixed = a_fixed_class(answer, ByWorker, methods=("__iter__",))
    if not issubclass(fixed, IterableDataset):
        error_in_your_code("not-iterable", name=fixed.__name__)
    return fixed


GRADER: Final = by_runs(run, judge, look=look, at_most=60)
