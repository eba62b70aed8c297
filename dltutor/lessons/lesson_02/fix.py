"""Grade "02.fix": whatever a dataset raises arrives, with the sample's index and path.

Types that pass the notebook's three gates stay as they are, and all others become a RuntimeError.
The simple fix in "On call" is right, too: one type of the learner's own for all of them.

The dataset raises in nineteen places. The check reads it in an order of its own, one sample at a
time, and reads on after each error. Samples hold no tensors, so if a worker dies, its death
is all that main sees of it.
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
from dltutor.lessons.engine.outcomes import (
    Fault,
    Rejected,
    Result,
    correct,
    fault,
    not_yet,
    reject,
)
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
from dltutor.observation.time_limits import deadline

_LONG: Final = 15  # seconds for each thing that the answer does, on a busy machine
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # workers, and epochs
_HEALTHY: Final = (0, 1, 4000, *range(1300, 1333), 2, LENGTH - 2)
_THREES: Final = zip(_HEALTHY[::2], FAULTS, _HEALTHY[1::2], strict=True)
ORDER: Final = [index for three in _THREES for index in three]
_PATH: Final = "the path as `str` writes it"


@dataclass(frozen=True)
class Arrival:
    """What the loop got for one sample.

    Args:
        index: The sample.
        kind: The type of the exception in main, or "" if a sample arrived.
        right: Whether it's the right sample, or `except` of the expected type catches it.
        lacks: What's missing from what Python prints of it.
        raised: The type as it left the answer.
        runtime: Whether `except RuntimeError` catches it.
        place: What the learner's cell raised and where, or "" if it raised nothing.
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
    """The epochs with some workers, and what arrived in the wrong one, or in the last one."""

    workers: int
    ending: Ending
    arrivals: tuple[Arrival, ...] = ()

    @property
    def has_one_type(self) -> bool:
        """Whether every error left the answer as the same type, which is a RuntimeError."""
        failed = [each for each in self.arrivals if each.index in FAULTS]
        return all(each.runtime for each in failed) and len({each.raised for each in failed}) == 1

    @property
    def wrong(self) -> Arrival | None:
        """The first sample that isn't as it should be. With one type for all, paths are extra."""
        for each in self.arrivals:
            if self.has_one_type and each.index in FAULTS:
                lacks = tuple(part for part in each.lacks if part != _PATH)
                each = replace(each, right=True, lacks=lacks)
            if not each.right or each.lacks:
                return each
        return None

    @property
    def is_right(self) -> bool:
        """Whether the run finished, and everything arrived as it should."""
        came = len(self.arrivals)
        return self.ending.end == "finished" and came == len(ORDER) and not self.wrong


@dataclass(frozen=True)
class Evidence:
    """What's known about an answer: its length, what's wrong after a Ctrl-C, and the runs."""

    length: int = LENGTH
    interrupt: Fault | None = None
    runs: tuple[Run, ...] = ()


def gather(answer: type) -> Evidence:
    """Wrap a dataset, use it in main, then read it with 2, 0 and 4 workers."""
    dataset = Readings()
    call = f"{answer.__name__}(dataset)"
    try:
        located = made(answer, dataset, call=call, within=_LONG)
    except Rejected as rejected:
        if isinstance(rejected.__cause__, KeyboardInterrupt):
            not_yet("reads-at-once", call=call)
        raise
    length = made(lambda: len(located), call="len(located)", within=_LONG)
    evidence = Evidence(length, _interrupted(located))
    for workers, epochs in _RUNS if length == LENGTH else ():
        run = _run(located, dataset, workers, epochs)
        evidence = replace(evidence, runs=(*evidence.runs, run))
        if not run.is_right:
            break
    return evidence


def _interrupted(located: Any) -> Fault | None:
    try:
        with deadline(_LONG):
            sample = located[INTERRUPTED]
    except KeyboardInterrupt:
        return None
    except Exception as error:
        return fault("interrupt-replaced", index=INTERRUPTED, kind=type(error).__name__)
    return fault("interrupt-caught", index=INTERRUPTED, sample=shown(sample))


def _run(located: Any, dataset: Readings, workers: int, epochs: int) -> Run:
    arrivals: list[Arrival] = []

    def loop(loader: DataLoader[Any]) -> None:
        if arrivals and not Run(workers, Ending("finished", _LONG), tuple(arrivals)).is_right:
            return
        arrivals.clear()
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


def judge(evidence: Evidence) -> Result:
    """Correct if every sample and every error arrived in every run as what it should be."""
    if evidence.length != LENGTH:
        not_yet("other-length", samples=LENGTH, length=evidence.length)
    for run in evidence.runs:
        if run.wrong:
            _judge_arrival(where(run.workers), run.wrong)
        _judge_ending(where(run.workers), run.ending, len(run.arrivals))
    if evidence.interrupt:
        reject(evidence.interrupt)
    changed = sum(each.kind is RuntimeError for each in FAULTS.values())
    kept = len(FAULTS) - changed
    code = "correct-one-type" if all(run.has_one_type for run in evidence.runs) else "correct"
    return correct(code, faults=len(FAULTS), kept=kept, changed=changed, healthy=len(_HEALTHY))


def _judge_ending(there: str, ending: Ending, came: int) -> None:
    due = ORDER[came] if came < len(ORDER) else -1
    what = f"raises {FAULTS[due].what}" if due in FAULTS else "is healthy"
    if ending.end == "hung" and due >= 0 and "pickle" in ending.last_words.lower():
        not_yet("not-pickled", where=there, index=due, what=what, last_words=ending.last_words)
    ended_well(ending, there)
    if due >= 0:
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


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Located),
    at_most=5 * _LONG,
)
