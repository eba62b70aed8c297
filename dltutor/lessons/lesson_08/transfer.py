"""Grade "08.transfer": a function that tells how many batches are ready and not yet with the loop.

Workers make a batch only when the check opens their gate, so at each question the right number is
known, and nothing is a matter of luck.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_function, shown, whole_number
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, could_not_check, not_yet
from dltutor.lessons.lesson_08.material import ready

_BATCHES: Final = 24
_WITHIN: Final = 20  # seconds for each run; it takes less than one
_WRITING: Final = 0.05  # seconds for what is put into a queue to be written to its pipe
_PATIENCE: Final = 8.0  # seconds for the workers to make what they may


def ahead(batches: Any) -> Any:
    """The starter: what the workers have put into the queue, and main has not fetched."""
    return batches._data_queue.qsize()


@dataclass(frozen=True)
class Asked:
    """One question to the function, asked twice."""

    when: str
    right: int  # batches that were ready
    said: tuple[str, str]
    numbers: tuple[int | None, int | None]  # what was said; None where it is no whole number
    gone: int  # batches that were gone afterwards


@dataclass(frozen=True)
class Counted:
    """What a function said in one run, and the batches that the loop got in each epoch."""

    where: str
    run: Ending
    asked: tuple[Asked, ...]
    came: tuple[tuple[int, ...], ...]


class _Gated(Dataset[Any]):
    # A worker makes a batch for each time that its gate is opened; without workers there is none.
    # With 4 workers a batch is a pair.
    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("fork")
        self.gates = [context.Semaphore(0) for _ in range(workers)]

    def __len__(self) -> int:
        return _BATCHES

    def __getitem__(self, index: int) -> Any:
        if info := get_worker_info():
            self.gates[info.id].acquire()
        return (index, 0) if len(self.gates) == 4 else index

    def let(self, worker: int, batches: int) -> None:
        for _ in range(batches):
            self.gates[worker].release()

    def open(self) -> None:
        for worker in range(len(self.gates)):
            self.let(worker, _BATCHES)

    def close(self) -> None:
        for gate in self.gates:
            while gate.acquire(block=False):
                pass


# Moments, each with the number of batches that are ready then.
_Steps = Callable[[_Gated, Callable[[], None]], Iterator[tuple[str, int]]]


def _two(dataset: _Gated, take: Callable[[], None]) -> Iterator[tuple[str, int]]:
    # 2 workers, prefetch_factor 3.
    yield "before any batch is made", 0
    dataset.let(1, 2)
    yield "when W1 has made two batches and W0 none", 2
    dataset.let(0, 1)
    take()
    yield "when the loop waited for W0's first batch, and W1 had made two before", 2
    dataset.open()
    yield "when both workers have made all that they may", 6
    for _ in range(_BATCHES - 4):
        take()
    yield "when three of the epoch's batches are left", 3
    for _ in range(3):
        take()
    yield "when the loop has got the last batch", 0


def _four(dataset: _Gated, take: Callable[[], None]) -> Iterator[tuple[str, int]]:
    # 4 workers, prefetch_factor 2.
    dataset.let(3, 1)
    yield "when W3 has made a batch and no other worker has", 1
    dataset.open()
    yield "when all workers have made all that they may", 8
    take()
    yield "when the loop has its first batch and the workers have caught up", 8


def _none(dataset: _Gated, take: Callable[[], None]) -> Iterator[tuple[str, int]]:
    yield "before the first batch", 0
    take()
    yield "after the first batch", 0


# Workers, prefetch_factor, epochs.
_RUNS: Final = ((2, 3, 2, _two), (4, 2, 1, _four), (0, 0, 1, _none))


def gather(answer: Callable[[Any], Any]) -> tuple[Counted, ...]:
    """Ask it in loaders whose workers are held up, until it is wrong."""
    try:
        multiprocessing.get_context("fork").Queue().qsize()
    except NotImplementedError:
        could_not_check("this system does not count what is in a queue of multiprocessing.")
    found: list[Counted] = []
    for workers, prefetch, epochs, steps in _RUNS:
        run = _Run(answer, _Gated(workers), epochs, steps)
        more: dict[str, Any] = {"batch_size": 1, "within": _WITHIN}
        if workers:
            more |= {"prefetch_factor": prefetch, "persistent_workers": True}
        end = run_loader(run.dataset, run.loop, workers=workers, **more)
        found.append(Counted(where(workers), end, tuple(run.asked), tuple(run.came)))
        try:
            _right(found[-1])
        except Rejected:
            break
    return tuple(found)


class _Run:
    def __init__(self, answer: Any, dataset: _Gated, epochs: int, steps: _Steps) -> None:
        self.answer, self.dataset, self.epochs, self.steps = answer, dataset, epochs, steps
        self.asked: list[Asked] = []
        self.came: list[tuple[int, ...]] = []

    def loop(self, loader: DataLoader[Any]) -> None:
        try:
            while len(self.came) < self.epochs and self.epoch(loader):
                pass
        finally:
            self.dataset.open()  # or the workers would not end

    def epoch(self, loader: DataLoader[Any]) -> bool:
        self.dataset.close()
        batches, got = iter(loader), list[int]()
        batches = getattr(batches, "_iterator", batches)  # torch's own, as at work

        def take() -> None:
            if (batch := next(batches, None)) is None:
                raise _Over
            got.append(int(batch[0]))

        try:
            for when, right in self.steps(self.dataset, take):
                _settle(batches, right)
                yielded = batches._num_yielded
                said = self.answer(batches), self.answer(batches)
                numbers = whole_number(said[0]), whole_number(said[1])
                gone = max(batches._num_yielded - yielded, right - ready(batches))
                told = shown(said[0]), shown(said[1])
                self.asked.append(Asked(when, right, told, numbers, gone))
                if numbers != (right, right) or gone:
                    return False
        except _Over:
            self.came.append((*got,))
            return False
        self.dataset.open()
        got.extend(int(batch[0]) for batch in batches)
        self.came.append((*got,))
        return True


class _Over(Exception):
    """The loader has no more batches, and should have."""


def _settle(batches: Any, right: int) -> None:
    until = time.monotonic() + _PATIENCE
    while ready(batches) != right:
        if time.monotonic() > until:
            could_not_check(
                f"after {_PATIENCE:g} s the workers have {ready(batches)} batches ready, and they "
                f"were let make {right}. The machine may be busy: check again."
            )
        time.sleep(0.005)
    time.sleep(_WRITING)


def judge(found: Sequence[Counted]) -> Result:
    """Correct if it was right each time, and took nothing away."""
    for each in found:
        _right(each)
    count = sum(len(each.asked) for each in found)
    return correct(
        f"Asked {count} times, with 2, 4 and 0 workers, your function told how many batches were "
        "ready, and every batch still reached the loop."
    )


def _right(counted: Counted) -> None:
    for asked in counted.asked:
        lead = f"{counted.where}, {asked.when}, {asked.right} batches are ready. "
        first, second = asked.numbers
        if asked.gone > 0:
            not_yet(
                f"{lead}When your function had been asked twice, {asked.gone} of them were gone, "
                "and the loop has not got them. Which of your lines takes a batch out?"
            )
        if first == second == asked.right:
            continue
        said = asked.said[0]
        if first is None:
            not_yet(f"{lead}Your function returns {said}, and not a whole number.")
        if first == asked.right:
            not_yet(f"{lead}Asked twice, your function says {said} and then {asked.said[1]}.")
        not_yet(f"{lead}Your function says {said}. {_question(asked.when, first, asked.right)}")
    ended_well(counted.run, counted.where, hung="What does your function wait for?")
    for came in counted.came:
        if came != (*range(_BATCHES),):
            not_yet(
                f"{counted.where}, the loop gets the batches {list(came)}, and not 0 to "
                f"{_BATCHES - 1}. Which of your lines changes what waits?"
            )


def _question(when: str, said: int, right: int) -> str:
    if when.startswith("when the loop waited") and said < right:
        return "Main has fetched both already, since it had to look for W0's. Where are they now?"
    if said > right:
        return "Which of these has been asked for, and not made yet, or counted twice?"
    return "Where does a batch wait that you have not counted?"


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=ahead),
    runs="asks your function with 2, 4 and 0 workers, whose batches it holds back",
    at_most=70,
)
