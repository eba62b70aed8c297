"""Grade "12.transfer": a stream that is shared by the workers of all ranks.

A dataset is made for each rank, in one process, and each is run in a loader of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch.utils.data import IterableDataset, get_worker_info

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown, whole_number
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_12.job import ByWorker

_LONG: Final = 6  # seconds for each thing that the answer does
_BATCH: Final = 4
_ENOUGH: Final = 30  # records of a rank, from which on each of its workers gives some


@dataclass(frozen=True)
class Plan:
    """How many ranks, workers in each, and records; and how many epochs."""

    ranks: int
    workers: int
    records: int
    epochs: int = 1

    def __str__(self) -> str:
        def some(count: int, what: str) -> str:
            return f"{count} {what}{'s' * (count != 1)}"

        each = some(self.workers, "worker") + " each" * (self.ranks > 1)
        return f"with {some(self.ranks, 'rank')}, {each}, and {some(self.records, 'record')}"


PLANS: Final = (
    Plan(2, 2, 65, epochs=2),
    Plan(2, 0, 65, epochs=2),
    Plan(2, 2, 7),
    Plan(3, 4, 92),
    Plan(2, 2, 1),
    Plan(2, 2, 0),
    Plan(2, 4, 66),
    Plan(3, 0, 7),
    Plan(1, 2, 65),
)

Came = tuple[tuple[int, str], ...]  # the worker that gave it, and the record


@dataclass(frozen=True)
class Rank:
    """What one rank got: how its run ended, and of each epoch its batches."""

    end: Ending
    epochs: tuple[tuple[Came, ...], ...] = ()


@dataclass(frozen=True)
class Run:
    """What came by a plan, up to the first rank that did not end well."""

    plan: Plan
    ranks: tuple[Rank, ...]


def records_of(plan: Plan) -> list[int]:
    """The records of a plan: numbers, no two alike, and other ones than those of most plans."""
    return [1000 * plan.records + (37 * number) % 1009 for number in range(plan.records)]


def gather(answer: type) -> tuple[Run, ...]:
    """Run the class by each plan, up to the first that is not right."""
    runs: list[Run] = []
    for plan in PLANS:
        runs.append(_run(answer, plan))
        try:
            judge(runs)
        except Rejected:
            break
    return tuple(runs)


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
            persistent_workers=plan.workers > 0 and plan.epochs > 1,
        )
        ranks.append(Rank(end, tuple(epochs)))
        if end.end != "finished":
            break
    return Run(plan, tuple(ranks))


def _collate(records: list[Any]) -> Came:  # in the worker
    info = get_worker_info()
    told = [None if isinstance(each, str) else whole_number(each) for each in records]
    pairs = zip(told, records, strict=True)
    return tuple(
        (info.id if info else 0, shown(raw) if number is None else str(number))
        for number, raw in pairs
    )


def judge(runs: Sequence[Run]) -> Result:
    """Correct if no record came twice, and all ranks got equally many, whatever the plan."""
    for run in runs:
        for number, rank in enumerate(run.ranks):
            ended_well(rank.end, f"{run.plan}, on rank {number}")
        for epoch, ranks in enumerate(zip(*(rank.epochs for rank in run.ranks), strict=True)):
            _right(run.plan, epoch, ranks)
    return correct(
        "No record comes twice, and all ranks get equally many, with 1, 2 and 3 ranks, 0, 2 and 4 "
        "workers each, and from 0 to 92 records. No rank will wait for another."
    )


def _right(plan: Plan, epoch: int, ranks: Sequence[tuple[Came, ...]]) -> None:
    lead = f"{plan}, " + (f"in epoch {epoch}, " if plan.epochs > 1 else "")
    gave = [[pair for batch in batches for pair in batch] for batches in ranks]
    came = Counter(record for rank in gave for _, record in rank)
    wanted = {str(record) for record in records_of(plan)}
    if strange := came.keys() - wanted:
        not_yet(
            f"{lead}`{min(strange)}` came, which is no record that `read()` gives. What does "
            "`__iter__` yield?"
        )
    if twice := [record for record, times in came.items() if times > 1]:
        _twice(lead, twice, gave, len(came))
    counts = [len(rank) for rank in gave]
    share = plan.records // plan.ranks
    if counts != [share] * plan.ranks:
        what = "Which records may a rank not take, and how can it know without asking the others?"
        if epoch and not all(counts):
            what = "Epoch 0 was right. What has it used up?"
        elif max(counts) == min(counts) < share:
            what = "Equal, but too few: which of those left out would give each rank one more?"
        not_yet(
            f"{lead}the ranks get {_listed(counts)} records. {share} each would be equal, with "
            f"{plan.records - share * plan.ranks} left out. {what}"
        )
    steps = [len(batches) for batches in ranks]
    if len({*steps}) > 1:
        not_yet(
            f"{lead}the ranks get equally many records, in {_listed(steps)} batches of {_BATCH} at "
            "most. Do the workers of all ranks share in the same way?"
        )
    for rank, pairs in enumerate(gave):
        idle = {*range(plan.workers)} - {worker for worker, _ in pairs}
        if idle and len(pairs) >= _ENOUGH:
            not_yet(
                f"{lead}W{min(idle)} of rank {rank} gives none of its {len(pairs)} records. What "
                "is it there for?"
            )


def _twice(lead: str, twice: list[str], gave: Sequence[list[tuple[int, str]]], of: int) -> None:
    places = [
        f"W{worker} of rank {rank}"
        for rank, pairs in enumerate(gave)
        for worker, record in pairs
        if record == twice[0]
    ]
    not_yet(
        f"{lead}{len(twice)} of {of} records come more than once: record {twice[0]} from "
        f"{' and '.join(places[:4])}. How does each of them know which records are its own?"
    )


def _listed(counts: Sequence[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}" if counts[1:] else str(counts[0])


def look(answer: Any) -> type:
    """The answer, if it is a class that a loader iterates."""
    fixed = a_fixed_class(
        answer,
        ByWorker,
        methods=("__iter__",),
        without_workers="Each rank has a loader of its own: which records are whose?",
    )
    if not issubclass(fixed, IterableDataset):
        error_in_your_code(
            f"`{fixed.__name__}` is not an `IterableDataset`, as the starter is: a loader would "
            "not iterate it, but ask it for a length and for samples by index."
        )
    return fixed


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="makes your class for 1, 2 and 3 ranks, and runs it with 0, 2 and 4 workers each",
    at_most=60,
)
