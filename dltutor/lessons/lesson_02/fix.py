"""Grade "02.fix": whatever a dataset raises arrives, with the sample's place.

Types that pass the three gates of the notebook keep their type, all others become a RuntimeError.

A dataset raises in nineteen places. It is read in an order of our own, sample by sample, past each
error. No tensor is in a sample: if a worker dies, that is all that can be seen of it.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import failed_at, made
from dltutor.lessons.lesson_02.material import Located
from dltutor.lessons.lesson_02.readings import (
    FAULTS,
    INTERRUPTED,
    LENGTH,
    Readings,
    sample_of,
    word_of,
)
from dltutor.observation import errors
from dltutor.observation.time_limits import DeadlinePassed, deadline

_LONG: Final = 15  # seconds for each thing that the answer does, on a busy machine
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # workers, and epochs
_HEALTHY: Final = (0, 1, 4000, *range(1300, 1333), 2, LENGTH - 2)
_THREES: Final = zip(_HEALTHY[::2], FAULTS, _HEALTHY[1::2], strict=True)
ORDER: Final = [index for three in _THREES for index in three]


@dataclass(frozen=True)
class Arrival:
    """What the loop got for one sample.

    Args:
        index: The sample.
        kind: The type of the exception in main, or "" for a sample.
        right: Whether it is the sample, or `except` of the expected type catches it.
        lacks: What Python does not print of it.
        raised: The type as it left the answer.
        place: What was raised and where in the learner's cell, or "" if nowhere there.
    """

    index: int
    kind: str = ""
    right: bool = True
    lacks: tuple[str, ...] = ()
    raised: str = ""
    place: str = ""


@dataclass(frozen=True)
class Run:
    """The epochs with some workers, and what came in the one that was wrong, or in the last."""

    workers: int
    ending: Ending
    arrivals: tuple[Arrival, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer: its length, what a KeyboardInterrupt became, the runs."""

    length: int = LENGTH
    interrupt: str = "KeyboardInterrupt"
    runs: tuple[Run, ...] = ()


def gather(answer: type) -> Evidence:
    """Wrap two datasets, use one in main, then read it with 2, 0 and 4 workers."""
    dataset = Readings()
    call = f"{answer.__name__}(dataset)"
    located = made(answer, dataset, call=call, within=_LONG)
    made(answer, Readings(9), call=call, within=_LONG)  # what one keeps is not the other's
    length = made(lambda: len(located), call="len(located)", within=_LONG)
    evidence = Evidence(length, _interrupted(located))
    for workers, epochs in _RUNS if length == LENGTH else ():
        run = _run(located, dataset, workers, epochs)
        evidence = replace(evidence, runs=(*evidence.runs, run))
        if run.ending.end != "finished" or _is_wrong(run.arrivals):
            break
    return evidence


def _interrupted(located: Any) -> str:
    try:
        with deadline(_LONG):
            return f"a sample, `{shown(located[INTERRUPTED])}`"
    except (KeyboardInterrupt, DeadlinePassed) as error:
        return type(error).__name__
    except BaseException as error:
        return f"`{type(error).__name__}`"


def _run(located: Any, dataset: Readings, workers: int, epochs: int) -> Run:
    arrivals: list[Arrival] = []

    def loop(loader: DataLoader[Any]) -> None:
        if arrivals and _is_wrong(tuple(arrivals)):
            return
        arrivals.clear()
        iterator = iter(loader)
        for index in (*ORDER, -1):  # one more than there are
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
        epochs=epochs,
        sampler=ORDER,
        collate_fn=list,
        persistent_workers=workers > 0 and epochs > 1,
    )
    return Run(workers, ending, tuple(arrivals))


def _of_error(index: int, error: Exception, dataset: Readings) -> Arrival:
    read, kind = errors.read(error), type(error).__name__
    raised = read.raised_in_worker or kind
    place = failed_at(*read.chain[0], read.traceback) if read.traceback else ""
    if (fault := FAULTS.get(index)) is None:
        return Arrival(index, kind, right=False, raised=raised, place=place)
    printed = "".join(traceback.format_exception(error))
    parts = {
        "the index": re.search(rf"(?<!\d){index}(?!\d)", printed),
        "the path as `str` writes it": str(dataset.paths[index]) in printed,
        "the text of the first error": word_of(index) in printed,
        "the code of the line that raised": "raise FAULTS[index]" in printed,
    }
    lacks = tuple(part for part, found in parts.items() if not found)
    return Arrival(index, kind, isinstance(error, fault.kind), lacks, raised, place)


def _is_wrong(arrivals: tuple[Arrival, ...]) -> bool:
    bad = any(not each.right or each.lacks for each in arrivals)
    return bad or len(arrivals) != len(ORDER)


def judge(evidence: Evidence) -> Result:
    """Correct if each sample, and each error, arrived in every run as what it should be."""
    if evidence.length != LENGTH:
        not_yet(f"the dataset has {LENGTH} samples, and `len(located)` is {evidence.length}.")
    for run in evidence.runs:
        for arrival in run.arrivals:
            _judge_arrival(where(run.workers), arrival)
        _judge_ending(where(run.workers), run.ending, len(run.arrivals))
    if evidence.interrupt != "KeyboardInterrupt":
        not_yet(
            "in main, a KeyboardInterrupt (Ctrl-C) while a sample is read becomes "
            f"{evidence.interrupt}. Which of your lines catches more than `Exception`?"
        )
    changed = sum(fault.kind is RuntimeError for fault in FAULTS.values())
    return correct(
        f"{len(FAULTS)} errors arrive with 0, 2 and 4 workers, with index, path and line: "
        f"{len(FAULTS) - changed} as their type, {changed} as a RuntimeError. The {len(_HEALTHY)} "
        "healthy samples arrive around them."
    )


def _judge_ending(lead: str, ending: Ending, came: int) -> None:
    due = ORDER[came] if came < len(ORDER) else -1
    what = f"sample {due} raises {FAULTS[due].what}" if due in FAULTS else f"sample {due} is due"
    if ending.end == "hung" and due >= 0 and "pickle" in ending.last_words.lower():
        not_yet(
            f"{lead}, the loop waits: {what}. A worker wrote `{ending.last_words}`. What has to be "
            "pickled on the way to main, and can it be?"
        )
    ended_well(ending, lead)
    if due >= 0:
        not_yet(f"{lead}, the epoch ends without a word: {what}. What ends a `for` loop?")


def _judge_arrival(lead: str, arrival: Arrival) -> None:
    index, fault = arrival.index, FAULTS.get(arrival.index)
    if index < 0:
        not_yet(f"{lead}, more comes than the {len(ORDER)} samples that were asked for.")
    if fault is None:
        if not arrival.right:
            came = f"the loop gets `{arrival.kind}`" if arrival.kind else "another one arrives"
            due = f"sample {index} is healthy, `{sample_of(index)}`"
            ask = arrival.place and f"Your class raised {arrival.place}"
            not_yet(f"{lead}, {due}, and {came}. {ask or 'What do you do with those?'}")
        return
    said = f"{lead}, sample {index} raises {fault.what}"
    if not arrival.kind:
        not_yet(f"{said}, and the loop gets a sample in its place. Who will notice?")
    if not arrival.right:
        its = type(fault.make("")).__name__
        ask = "Which of the three gates does that type not pass?"
        if arrival.place and arrival.raised != its:
            ask = f"Your class raised {arrival.place} Is that what you meant to raise here?"
        not_yet(
            f"{said}, and the loop gets `{arrival.kind}`, which `except {fault.kind.__name__}` "
            f"does not catch. {ask}"
        )
    if arrival.lacks:
        not_yet(
            f"{said}. It is caught, and what Python prints of it lacks "
            f"{' and '.join(arrival.lacks)}. What is in its text, and was it raised `from` the "
            "first error?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Located),
    runs="wraps a dataset that raises at nineteen samples, and reads it with 2, 0 and 4 workers",
    at_most=5 * _LONG,
)
