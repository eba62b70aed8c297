"""Grade "02.fix", which asks for every error to arrive with the sample's index and path.

An error has to keep its type if a worker can pickle the type, main can rebuild the error from a
string, and the error doesn't end the loop. Any other error has to become a RuntimeError. The
notebook's section "On call" has a simple fix, which uses one type for all errors and is correct,
too.

The check reads samples one at a time, in an order that isn't the dataset's, and goes on after each
error. Nineteen of these samples raise. Samples have no tensors, so that a worker's crash can't
cause other errors in main.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import (
    Rejected,
    Result,
    correct,
    not_yet,
)
from dltutor.lessons.engine.running import failed_at, made
from dltutor.lessons.lesson_02.helpers import Located
from dltutor.lessons.lesson_02.readings import (
    FAULTS,
    INTERRUPTED,
    LENGTH,
    Readings,
    sample_of,
    word_of,
)
from dltutor.observation import errors
from dltutor.observation.time_limits import deadline

_LONG: Final = 15  # time limit in seconds for each call or run, enough for a busy machine
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # each run's number of workers and number of epochs
_HEALTHY: Final = (0, 1, 4000, *range(1300, 1333), 2, LENGTH - 2)
_THREES: Final = zip(_HEALTHY[::2], FAULTS, _HEALTHY[1::2], strict=True)
ORDER: Final = [index for three in _THREES for index in three]
_PATH: Final = "the path as `str` writes it"


@dataclass(frozen=True)
class Arrival:
    """A record of what the loop got for one sample.

    Args:
        index: The sample's index.
        kind: The type of the exception in main, or "" if a sample arrived.
        right: Whether the right sample or an exception of the expected type arrived.
        lacks: What's missing from the traceback that Python prints.
        raised: The type of the exception that the answer raised, or "".
        runtime: Whether `except RuntimeError` catches the exception.
        place: The error, and the learner's line in its traceback, or "" if there's no such line.
    """

    index: int
    kind: str = ""
    right: bool = True
    lacks: tuple[str, ...] = ()
    raised: str = ""
    runtime: bool = False
    place: str = ""


@dataclass(frozen=True)
class Run:
    """A record of what arrived in each epoch of a run, and of how the run ended."""

    workers: int
    ending: Ending
    epochs: tuple[tuple[Arrival, ...], ...] = ()

    @property
    def has_one_type(self) -> bool:
        """Whether the answer raised all errors as one type: RuntimeError, or a subclass."""
        failed = [each for epoch in self.epochs for each in epoch if each.index in FAULTS]
        return all(each.runtime for each in failed) and len({each.raised for each in failed}) == 1


def run(answer: type) -> Iterator[Run]:
    """Yield a record of each run, then read a sample that raises KeyboardInterrupt, as Ctrl-C does.

    Raises:
        Rejected: The dataset can't be made, has the wrong length, or doesn't pass on the interrupt.
    """
    dataset = Readings()
    call = f"{answer.__name__}(dataset)"
    try:
        located = made(answer, dataset, call=call, within=_LONG)
    except Rejected as rejected:
        if isinstance(rejected.__cause__, KeyboardInterrupt):
            not_yet("reads-at-once", call=call)
        raise
    length = made(lambda: len(located), call="len(located)", within=_LONG)
    if length != LENGTH:
        not_yet("other-length", samples=LENGTH, length=length)
    for workers, epochs in _RUNS:
        yield _run(located, dataset, workers, epochs)
    _interrupt(located)


def _interrupt(located: Any) -> None:
    try:
        with deadline(_LONG):
            sample = located[INTERRUPTED]
    except KeyboardInterrupt:
        return
    except Exception as error:
        not_yet("interrupt-replaced", index=INTERRUPTED, kind=type(error).__name__)
    not_yet("interrupt-caught", index=INTERRUPTED, sample=shown(sample))


def _run(located: Any, dataset: Readings, workers: int, count: int) -> Run:
    epochs: list[list[Arrival]] = []

    def loop(loader: DataLoader[Any]) -> None:
        epochs.append(arrivals := [])
        iterator = iter(loader)
        for index in ORDER:
            try:
                batch = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                if "exited unexpectedly" in str(error):
                    raise
                arrivals.append(_of_error(index, error, dataset))
            else:
                arrivals.append(Arrival(index, right=repr(batch) == repr([sample_of(index)])))

    ending = run_loader(
        located,
        loop,
        workers=workers,
        within=_LONG,
        epochs=count,
        sampler=ORDER,
        collate_fn=list,
    )
    return Run(workers, ending, tuple(map(tuple, epochs)))


def _of_error(index: int, error: Exception, dataset: Readings) -> Arrival:
    read, kind = errors.read(error), type(error).__name__
    raised = read.raised_in_worker or kind
    place = failed_at(*read.chain[0], read.traceback) if read.traceback else ""
    if (expected := FAULTS.get(index)) is None:
        return Arrival(index, kind, right=False, raised=raised, place=place)
    printed = "".join(traceback.format_exception(error))
    parts = {
        "the index": re.search(rf"(?<!\d){index}(?!\d)", printed),
        _PATH: str(dataset.paths[index]) in printed,
        "the message of the first error": word_of(index) in printed,
        "the code of the line that raised": "raise FAULTS[index]" in printed,
    }
    lacks = tuple(part for part, found in parts.items() if not found)
    right, runtime = isinstance(error, expected.kind), isinstance(error, RuntimeError)
    return Arrival(index, kind, right, lacks, raised, runtime, place)


def judge(run: Run) -> None:
    """Raise `Rejected` unless every sample and every error arrived as it should."""
    there = where(run.workers)
    for arrivals in run.epochs:
        for arrival in arrivals:
            # A fix with one type for all errors may choose the type, and doesn't need the path.
            if run.has_one_type and arrival.index in FAULTS:
                lacks = tuple(part for part in arrival.lacks if part != _PATH)
                arrival = replace(arrival, right=True, lacks=lacks)
            if not arrival.right or arrival.lacks:
                _judge_arrival(there, arrival)
        if len(arrivals) < len(ORDER):
            _judge_ending(there, run.ending, ORDER[len(arrivals)])
    check_ending(run.ending, there)


def result(runs: tuple[Run, ...]) -> Result:
    """Return the result for an answer that `judge` accepts in every run."""
    changed = sum(each.kind is RuntimeError for each in FAULTS.values())
    kept = len(FAULTS) - changed
    code = "correct-one-type" if all(run.has_one_type for run in runs) else "correct"
    return correct(code, faults=len(FAULTS), kept=kept, changed=changed, healthy=len(_HEALTHY))


def _judge_ending(there: str, ending: Ending, due: int) -> None:
    what = f"raises {FAULTS[due].what}" if due in FAULTS else "is healthy"
    if ending.end == "hung" and "pickle" in ending.last_words.lower():
        not_yet("not-pickled", where=there, index=due, what=what, last_words=ending.last_words)
    check_ending(ending, there)
    not_yet("ends-early", where=there, index=due, what=what)


def _judge_arrival(there: str, arrival: Arrival) -> None:
    index = arrival.index
    seen = {"where": there, "index": index, "kind": arrival.kind, "place": arrival.place}
    if index not in FAULTS:
        code = "healthy-raised" if arrival.kind else "healthy-replaced"
        not_yet(code, **seen, sample=sample_of(index))
    expected = FAULTS[index]
    seen |= {"what": expected.what, "due": expected.kind.__name__}
    if not arrival.kind:
        not_yet("swallowed", **seen)
    if not arrival.right:
        given = type(expected.make("")).__name__
        by_the_class = arrival.place and arrival.raised != given
        not_yet("other-type-raised" if by_the_class else "other-type", **seen)
    not_yet("lacks", **seen, lacks=", ".join(arrival.lacks))


GRADER: Final = by_runs(
    run,
    judge,
    result=result,
    look=partial(a_fixed_class, starter=Located),
    at_most=5 * _LONG,
)
