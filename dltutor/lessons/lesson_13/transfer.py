"""Grade "13.transfer": a function that measures throughput by number of workers, and is not fooled.

The clock is the grader's, and goes on only when a loader is asked for a batch: what the function
must return is known to the last digit, on any machine.
"""

from __future__ import annotations

import gc
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, TensorDataset

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_function, shown
from dltutor.lessons.kit.outcomes import Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import made

RUNS: Final = 3
BATCHES: Final = 16
_LONG: Final = 10  # seconds
_CLOSE: Final = 1e-6
_CALLS: Final = ((0, 1, 4), (3, 0, 8, 2))  # the numbers that it is called with
_START: Final = 0.5  # seconds of the rehearsal's clock for the first batch of each worker


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


@dataclass
class _Record:
    workers: int
    taken: int = 0
    right: float = 0.0  # seconds for a batch, as it should be measured


class _Rehearsal:
    """A clock, the loaders that make it go on, and what was asked of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looked = 0
        self.runs: list[_Record] = []
        self.crowded = 0
        self._last: Callable[[], _Batches | None] = lambda: None

    def clock(self) -> float:
        self.looked += 1
        return self.now

    def make(self, workers: int) -> _Rehearsed:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")
            loader = _Rehearsed(TensorDataset(torch.arange(4000)), 4, num_workers=workers)
        loader.rehearsal = self
        return loader

    def begin(self, workers: int) -> _Batches:
        if self._open():
            gc.collect()  # rings of the learner's own are not what is asked about
        self.crowded += self._open()
        self.runs.append(_Record(workers))
        batches = _Batches(self, self.runs[-1], 1 + 0.1 * len(self.runs))
        self._last = weakref.ref(batches)
        return batches

    def _open(self) -> bool:
        last = self._last()
        return last is not None and not last.ended


class _Rehearsed(DataLoader[Any]):
    rehearsal: _Rehearsal

    def __iter__(self) -> Any:
        return self.rehearsal.begin(self.num_workers)


class _Batches:
    """The iterator of a rehearsed loader: its workers start, then wait for each sample."""

    def __init__(self, rehearsal: _Rehearsal, record: _Record, slower: float) -> None:
        self._rehearsal, self._record = rehearsal, record
        self._slower = slower  # the machine gets busier with every run
        self.ended = False

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> torch.Tensor:
        place, each = self._record.taken, max(1, self._record.workers)
        if self.ended or place == 1000:
            self.ended = True
            raise StopIteration
        seconds = _START if place < each else (1 + place % 3) * self._slower / each / 50
        self._rehearsal.now += seconds
        self._record.taken += 1
        if each <= place < each + BATCHES:
            self._record.right += seconds / BATCHES
        return torch.arange(4 * place, 4 * place + 4)

    def _shutdown_workers(self) -> None:  # as torch's iterators have it
        self.ended = True


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
        crowded: How many runs began while the iterator of another was alive.
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
    """Call the function with loaders whose times are known, twice."""
    return tuple(_called(answer, counts) for counts in _CALLS)


def _called(answer: Callable[..., Any], counts: tuple[int, ...]) -> Measured:
    rehearsal = _Rehearsal()
    call = f"my_measurement(make_loader, {list(counts)}, clock)"
    returned = made(answer, rehearsal.make, list(counts), rehearsal.clock, call=call, within=_LONG)
    return Measured(
        counts,
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
        return {
            int(workers): tuple(sorted(float(each) for each in islice(runs, 100)))
            for workers, runs in returned.items()
        }
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return None


def judge(calls: tuple[Measured, ...]) -> Result:
    """Correct if the function returned the seconds that the clock says, and ran as asked."""
    for seen in calls:
        called = f"called with {list(seen.counts)}, your function"
        numbers = set(seen.counts)
        if seen.answer is None:
            error_in_your_code(
                f"{called} returns {seen.returned}, not a dict: number of workers -> {RUNS} "
                "numbers."
            )
        if seen.answer.keys() != numbers:
            not_yet(f"{called} returns measurements for {sorted(seen.answer)}.")
        for workers, runs in seen.answer.items():
            if len(runs) != RUNS:
                not_yet(f"{called} returns {len(runs)} measurements for {workers} workers.")
        if len(seen.order) != RUNS * len(seen.counts):
            not_yet(
                f"{called} began {len(seen.order)} epochs. {RUNS} runs of each number are "
                f"{RUNS * len(seen.counts)}: what is an epoch begun for?"
            )
        size = len(seen.counts)
        turns = [seen.order[at : at + size] for at in range(0, len(seen.order), size)]
        if any(set(turn) != numbers for turn in turns):
            not_yet(
                f"{called} ran the numbers in the order {list(seen.order)}. The machine got busier "
                "meanwhile: which numbers suffer from it, and how would all suffer alike?"
            )
        _taken(seen, called)
        if seen.crowded:
            not_yet(
                f"{called} began {seen.crowded} runs while the iterator of another was alive, and "
                "with it its workers. Which variable still holds it when the next begins?"
            )
        _times(seen, called)
    return correct(
        "Every number is measured three times, in turns; the clock starts when each worker has "
        "delivered, and stops after 16 batches more; the workers of one run have ended before the "
        "next begins."
    )


def _taken(seen: Measured, called: str) -> None:
    for workers, taken in zip(seen.order, seen.taken, strict=True):
        right = max(1, workers) + BATCHES
        if taken != right:
            not_yet(
                f"{called} took {taken} batches in a run with {workers} workers. It is "
                f"{max(1, workers)} to begin with, and {BATCHES} that are timed: {right}."
            )


def _times(seen: Measured, called: str) -> None:
    assert seen.answer is not None
    for workers in seen.counts:
        pairs = zip(seen.order, seen.right, strict=True)
        right = sorted(seconds for number, seconds in pairs if number == workers)
        got = seen.answer[workers]
        if any(abs(a - b) > _CLOSE for a, b in zip(got, right, strict=True)):
            clock = "" if seen.looked else " It never read the `clock` that it was given."
            not_yet(
                f"{called} returns {got[0]:.4f} s for a batch with {workers} workers, its quickest "
                f"run; by the clock it is {right[0]:.4f} s.{clock} When is the clock read, and by "
                "how many batches is it divided?"
            )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=starter),
    runs="calls your function twice, with loaders and a clock whose times are known",
    at_most=2 * _LONG + 6,
)
