"""Grade "08.transfer": a function that tells how many batches are ready and not yet with the loop.

Workers make a batch only when the check opens their gate, so at each question the right number is
known, and nothing is a matter of luck.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import psutil
from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, as_int, shown
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, could_not_check, not_yet
from dltutor.lessons.lesson_08.gated import BATCHES, Gated
from dltutor.lessons.lesson_08.material import ready

_WITHIN: Final = 20  # seconds for each run; it takes less than one
_WRITING: Final = 0.05  # seconds for what is put into a queue to be written to its pipe
_ENDED: Final = "of the loader's workers had ended or been stopped. What in your function does it?"
_PATIENCE: Final = 8.0  # seconds for the workers to make what they may


def ahead(batches: Any) -> Any:
    """The starter: what the workers have put into the queue, and main has not fetched."""
    return batches._data_queue.qsize()


@dataclass(frozen=True)
class Asked:
    """One question to the function."""

    when: str
    right: int  # batches that were ready
    said: str
    number: int | None  # what was said; None where it is no `int`
    did: str = ""  # what asking has changed, as a sentence and a question

    @property
    def fine(self) -> bool:
        """Whether the function was right, and changed nothing."""
        return self.number == self.right and not self.did


@dataclass(frozen=True)
class Counted:
    """What a function said in one run, and the batches that the loop got in each epoch."""

    where: str
    run: Ending
    asked: tuple[Asked, ...]
    came: tuple[tuple[int, ...], ...]


class _Moment(NamedTuple):
    when: str
    right: int  # batches that are ready then
    let: tuple[int, ...] = ()  # batches that W0, W1 and so on are let make before
    take: int = 0  # batches that the loop takes before


_ALL: Final = (BATCHES,) * 4  # as many as they may
_TWO: Final = (  # 2 workers, prefetch_factor 3
    _Moment("before any batch is made", 0),
    _Moment("when W1 has made two batches and W0 none", 2, (0, 2)),
    _Moment("when the loop waited for W0's first batch, and W1 had made two before", 2, (1,), 1),
    _Moment("when both workers have made all that they may", 6, _ALL),
    _Moment("when three of the epoch's batches are left", 3, take=BATCHES - 4),
    _Moment("when the loop has got the last batch", 0, take=3),
)
_FOUR: Final = (  # 4 workers, prefetch_factor 2
    _Moment("when W3 has made a batch and no other worker has", 1, (0, 0, 0, 1)),
    _Moment("when all workers have made all that they may", 8, _ALL),
    _Moment("when the loop has its first batch and the workers have caught up", 8, take=1),
)
_NONE: Final = (_Moment("before the first batch", 0), _Moment("after the first batch", 0, take=1))
# Workers, prefetch_factor, epochs.
_RUNS: Final = ((2, 3, 2, _TWO), (4, 2, 1, _FOUR), (0, None, 1, _NONE))


def gather(answer: Callable[[Any], Any]) -> tuple[Counted, ...]:
    """Ask it in loaders whose workers are held up, until it is wrong."""
    try:
        multiprocessing.get_context("fork").Queue().qsize()
    except NotImplementedError:
        could_not_check("this system does not count what is in a queue of multiprocessing.")
    found: list[Counted] = []
    for workers, prefetch, epochs, moments in _RUNS:
        dataset, asked, came = Gated(workers), list[Asked](), list[tuple[int, ...]]()
        end = run_loader(
            dataset,
            partial(_epoch, answer, dataset, moments, asked, came),
            workers=workers,
            within=_WITHIN,
            epochs=epochs,
            batch_size=1,
            prefetch_factor=prefetch,
            persistent_workers=workers > 0,
        )
        end = replace(end, stood=end.main or end.stood)  # the workers wait for the check's gates
        found.append(Counted(where(workers), end, tuple(asked), tuple(came)))
        try:
            _right(found[-1])
        except Rejected:
            break
    return tuple(found)


def _epoch(
    answer: Callable[[Any], Any],
    dataset: Gated,
    moments: Sequence[_Moment],
    asked: list[Asked],
    came: list[tuple[int, ...]],
    loader: DataLoader[Any],
) -> None:
    if not all(each.fine for each in asked):
        return
    dataset.close()
    batches, got = iter(loader), list[int]()
    batches = getattr(batches, "_iterator", batches)  # torch's own, as at work
    try:
        for when, right, let, take in moments:
            dataset.let(*let)
            took = [int(batch[0]) for batch in islice(batches, take)]
            got += took
            if len(took) < take:
                break
            _settle(batches, right)
            before, said = _counts(batches), answer(batches)
            did = _did(before, _counts(batches))
            asked.append(Asked(when, right, shown(said), as_int(said), did))
            if not asked[-1].fine:
                return
        got += [int(batch[0]) for batch in batches]
        came.append((*got,))
    finally:
        dataset.let(*_ALL)  # or the workers would not end


def _counts(batches: Any) -> tuple[int, ...]:
    # Workers that run, batches that were asked for, those that have reached the loop, are ready.
    workers = sum(map(_runs, getattr(batches, "_workers", ())))
    return workers, getattr(batches, "_send_idx", 0), batches._num_yielded, ready(batches)


def _runs(worker: Any) -> bool:
    with suppress(psutil.Error):
        return worker.is_alive() and psutil.Process(worker.pid).status() != psutil.STATUS_STOPPED
    return False


def _did(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    workers, sent, came, waiting = (b - a for a, b in zip(before, after, strict=True))
    ways = (
        (-workers, _ENDED),
        (max(came, -waiting), "were gone, not with the loop. Which of your lines takes one out?"),
        (sent, "more had to be made. Which of your lines asks the workers for it?"),
    )
    return next((f"{count} {words}" for count, words in ways if count > 0), "")


def _settle(batches: Any, right: int) -> None:
    until = time.monotonic() + _PATIENCE
    while ready(batches) != right:
        if lost := len(batches._workers) - _counts(batches)[0]:
            not_yet(f"After your function was asked, {lost} {_ENDED}")
        if time.monotonic() > until:
            could_not_check(
                f"after {_PATIENCE:g} s {ready(batches)} batches are ready, and not {right}. The "
                "machine is busy, or your function holds the workers up. Check again."
            )
        time.sleep(0.005)
    time.sleep(_WRITING)


def judge(found: Sequence[Counted]) -> Result:
    """Correct if it was right each time, and took nothing away."""
    for each in found:
        _right(each)
    return correct(
        f"Asked {sum(len(each.asked) for each in found)} times, with 2, 4 and 0 workers, your "
        "function told how many batches were ready, and every batch still reached the loop."
    )


def _right(counted: Counted) -> None:
    for asked in counted.asked:
        lead = f"{counted.where}, {asked.when}, {asked.right} batches are ready. "
        if asked.did:
            not_yet(f"{lead}Once your function was asked, {asked.did}")
        if asked.number is None:
            not_yet(f"{lead}Your function returns {asked.said}, which is not an `int`.")
        if not asked.fine:
            question = _question(asked.when, asked.number, asked.right)
            not_yet(f"{lead}Your function says {asked.said}. {question}")
    died = "What in your function ends a process?"
    ended_well(counted.run, counted.where, hung="What does your function wait for?", died=died)
    for came in counted.came:
        if came != (*range(BATCHES),):
            not_yet(
                f"{counted.where}, the loop gets the batches {list(came)}, and not 0 to "
                f"{BATCHES - 1}. Which of your lines changes what waits?"
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
