"""Grade "08.transfer", which asks for a function that counts the batches ready for the loop.

Workers make a batch only when the check opens their gate. So the check knows the right number each
time it asks, and luck doesn't matter.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_function, as_int, shown
from dltutor.lessons.engine.outcomes import correct, could_not_check, not_yet
from dltutor.lessons.lesson_08.helpers import ready

BATCHES: Final = 24
_WITHIN: Final = 20  # time limit in seconds for each run
_WRITING: Final = 0.05  # seconds to wait for a batch to get from a worker's queue into the pipe
_PATIENCE: Final = 8.0  # time limit in seconds for the workers to make the allowed batches


def ahead(batches: Any) -> Any:
    """Count the batches in the queue from the workers, as the starter for "08.transfer" does."""
    return batches._data_queue.qsize()


class Gated(Dataset[int]):
    """A dataset whose workers make a batch only when the check opens their gate."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("fork")
        self.gates = [context.Semaphore(0) for _ in range(workers)]

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> int:
        if info := get_worker_info():
            self.gates[info.id].acquire()
        return index

    def let(self, *batches: int) -> None:
        """Let W0, W1, and so on make this many more batches."""
        for gate, count in zip(self.gates, batches, strict=False):
            for _ in range(count):
                gate.release()

    def close(self) -> None:
        """Keep all workers from making another batch until the next `let`."""
        for gate in self.gates:
            while gate.acquire(block=False):
                pass


@dataclass(frozen=True)
class Asked:
    """A record of one call to the function."""

    when: str
    right: int  # batches that were ready
    said: str
    number: int | None  # the number that the function returned, or None if it wasn't an integer
    took: int = 0  # batches that the function took from the iterator

    @property
    def is_wrong(self) -> bool:
        """Whether the function returned a wrong number, or took batches."""
        return self.number != self.right or self.took > 0


@dataclass(frozen=True)
class Counted:
    """A record of what the function returned in one run, and of each epoch's batches."""

    where: str
    run: Ending
    asked: tuple[Asked, ...]
    came: tuple[tuple[int, ...], ...]


class _Moment(NamedTuple):
    when: str
    right: int  # batches that are ready at this moment
    let: tuple[int, ...] = ()  # how many more batches W0, W1, and so on may make
    take: int = 0  # batches that the loop takes before this moment


_ALL: Final = (BATCHES,) * 4  # so that only torch limits how many batches the workers make
_EARLY: Final = "after the loop had to wait for W0's first batch and W1 had already made two"
_TWO: Final = (  # moments in a run with 2 workers and prefetch_factor 3
    _Moment("before any batch is made", 0),
    _Moment("when W1 has made two batches and W0 none", 2, (0, 2)),
    _Moment(_EARLY, 2, (1,), 1),
    _Moment("when both workers have made as many as they're allowed to", 6, _ALL),
    _Moment("when three batches of the epoch are left", 3, take=BATCHES - 4),
    _Moment("when the loop has the last batch", 0, take=3),
)
_FOUR: Final = (  # moments in a run with 4 workers and prefetch_factor 2
    _Moment("when W3 has made a batch and no other worker has", 1, (0, 0, 0, 1)),
    _Moment("when all workers have made as many as they're allowed to", 8, _ALL),
    _Moment("when the loop has its first batch and the workers have caught up", 8, take=1),
)
_NONE: Final = (_Moment("before the first batch", 0), _Moment("after the first batch", 0, take=1))
# Each run's number of workers, prefetch_factor, number of epochs, and moments.
_RUNS: Final = ((2, 3, 2, _TWO), (4, 2, 1, _FOUR), (0, None, 1, _NONE))


def run(answer: Callable[[Any], Any]) -> Iterator[Counted]:
    """Yield a record of each run, with calls at moments when the number of ready batches is known.

    Raises:
        Rejected: This system can't count a queue's items, as on macOS, or the workers haven't made
            the allowed batches after 8 s.
    """
    try:
        multiprocessing.get_context("fork").Queue().qsize()
    except NotImplementedError:
        could_not_check("no-queue-size")
    for workers, prefetch, epochs, moments in _RUNS:
        dataset, asked, came = Gated(workers), list[Asked](), list[tuple[int, ...]]()
        end = run_loader(
            dataset,
            partial(_ask, answer, dataset, moments, asked, came),
            workers=workers,
            within=_WITHIN,
            epochs=epochs,
            batch_size=1,
            prefetch_factor=prefetch,
            persistent_workers=workers > 0,
        )
        # If the run hung, say where main was, because the workers wait for the check's gates.
        end = replace(end, stood=end.main or end.stood)
        yield Counted(where(workers), end, tuple(asked), tuple(came))


def _ask(
    answer: Callable[[Any], Any],
    dataset: Gated,
    moments: Sequence[_Moment],
    asked: list[Asked],
    came: list[tuple[int, ...]],
    loader: DataLoader[Any],
) -> None:
    if any(each.is_wrong for each in asked):
        return
    dataset.close()
    batches, got = iter(loader), list[int]()
    batches = getattr(batches, "_iterator", batches)  # torch's iterator, which `observe` wraps
    try:
        for when, right, let, take in moments:
            dataset.let(*let)
            got += [int(batch) for batch in islice(batches, take)]
            _settle(batches, right)
            yielded, waiting = batches._num_yielded, ready(batches)
            said = answer(batches)
            took = max(batches._num_yielded - yielded, waiting - ready(batches))
            asked.append(Asked(when, right, shown(said), as_int(said), took))
            if asked[-1].is_wrong:
                return
        came.append((*got, *(int(batch) for batch in batches)))
    finally:
        dataset.let(*_ALL)  # otherwise the workers wouldn't end


def _settle(batches: Any, right: int) -> None:
    until = time.monotonic() + _PATIENCE
    while ready(batches) != right:
        if time.monotonic() > until:
            seconds = f"{_PATIENCE:g}"
            could_not_check("not-ready-yet", seconds=seconds, ready=ready(batches), right=right)
        time.sleep(0.005)
    time.sleep(_WRITING)


def judge(counted: Counted) -> None:
    """Raise `Rejected` unless the function was always right and the loop got all batches."""
    for asked in counted.asked:
        seen = {"where": counted.where, "when": asked.when, "right": asked.right}
        if asked.took > 0:
            not_yet("took-batches", count=asked.took, **seen)
        if asked.number is None:
            not_yet("not-an-int", **seen, said=asked.said)
        if asked.number > asked.right:
            not_yet("too-many", **seen, said=asked.said)
        if asked.number < asked.right:
            code = "forgets-early-batches" if asked.when == _EARLY else "too-few"
            not_yet(code, **seen, said=asked.said)
    check_ending(counted.run, counted.where)
    for came in counted.came:
        if came != (*range(BATCHES),):
            not_yet("other-batches", where=counted.where, came=[*came], last=BATCHES - 1)


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda runs: correct(asked=sum(len(each.asked) for each in runs)),
    look=partial(a_fixed_function, starter=ahead),
    at_most=70,
)
