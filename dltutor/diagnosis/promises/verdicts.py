"""A verdict on each of the seven promises, and how it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.kit.difference import with_workers
from dltutor.failures import PROMISES, Promise
from dltutor.observation.signs import LATE

State = Literal["kept", "broken", "not tested"]

_FASTER: Final = 0.9  # times as long with workers as without: less is faster


@dataclass(frozen=True)
class Verdict:
    """What became of one promise.

    Args:
        promise: Its name.
        state: Whether it is kept.
        said: How that is known, or why it isn't.
    """

    promise: Promise
    state: State
    said: str


def verdicts(
    evidence: Evidence, found: Sequence[Promise], untried: Sequence[str]
) -> tuple[Verdict, ...]:
    """A verdict on each promise.

    Args:
        evidence: Of one visit.
        found: The promise that each finding breaks.
        untried: Why questions have no answer.
    """
    kept = {
        "ends": _ended(evidence),
        "complete": _complete(evidence),
        "same": _same(evidence),
        "independent": _independent(evidence),
        "bounded": _bounded(evidence),
        "clean": _clean(evidence),
        "quick": _quick(evidence),
    }
    verdicts = []
    for promise in PROMISES:
        numbers = [str(at) for at, each in enumerate(found, start=1) if each == promise]
        if numbers:
            verdicts.append(Verdict(promise, "broken", f"see {' and '.join(numbers)} above"))
            continue
        well, said = kept[promise]
        why = said or next(iter(untried), "there was nothing to compare")
        verdicts.append(Verdict(promise, "kept" if well else "not tested", why))
    return tuple(verdicts)


Answer = tuple[bool, str]


def _ended(evidence: Evidence) -> Answer:
    run = evidence.run
    if not run.well:
        return False, ""
    if any(run.finished):
        epochs = sum(run.finished)
        return True, f"{epochs} epoch{'s' * (epochs > 1)}, {run.batches} batches"
    return False, f"{run.batches} batches came, and no epoch's end in the time there was"


def _complete(evidence: Evidence) -> Answer:
    run, alone = evidence.run, evidence.alone
    if not (run.well and run.finished[:1] == (True,) and run.batches):
        return False, "no epoch came to its end"
    if not evidence.parts.workers:
        return True, f"{run.counted[0]} samples came"
    if alone is None or alone.finished[:1] != (True,):
        return False, "no epoch without workers came to its end in the time there was"
    difference = with_workers(evidence)
    if difference is not None and difference.whole and difference.came == difference.expected:
        return True, f"{difference.came} {difference.unit} came, with workers and without"
    return False, "samples of the two epochs can't be counted alike"


def _same(evidence: Evidence) -> Answer:
    difference, fetched = with_workers(evidence), evidence.fetched
    if difference is not None and not difference.any:
        return True, f"{difference.came} {difference.unit} are those that come without workers"
    if fetched is not None and fetched.looked and not fetched.differ:
        return True, f"{fetched.looked} samples are those of `dataset[i]`, random numbers held"
    if difference is not None:
        return False, "samples are random: another run has others"
    return False, "no epoch came to its end"


def _independent(evidence: Evidence) -> Answer:
    samples, repeats = evidence.samples, evidence.repeats
    if repeats is not None and repeats.sources:
        return True, "random numbers were others in each worker and epoch"
    if samples is None or not samples.looked or samples.random or samples.joined:
        return False, ""
    if evidence.parts.stream:
        return False, "a stream's random numbers weren't told apart"
    return True, "no sample is random"


def _bounded(evidence: Evidence) -> Answer:
    memory, run = evidence.memory, evidence.run
    if not evidence.parts.workers:
        return False, "there is no worker whose memory could grow"
    if memory is not None and memory.late_as_it_is >= 0:
        return True, "what workers took after their first samples went away again, or has a bound"
    if not run.private or not run.well:
        return False, ""
    if max(most - first for first, most in run.private) > LATE:
        return False, "a worker's own memory rose, and the run was too short to say whether it ends"
    return True, f"no worker's own memory rose by more than {LATE:.0f} MB in the run"


def _clean(evidence: Evidence) -> Answer:
    if evidence.leftover is not None:
        return True, "no worker was left after the loop"
    samples = evidence.samples
    if samples is not None and samples.left is not None:
        return True, "samples that were drawn again left no thread, process, or temporary file"
    return False, "no epoch was broken off" if evidence.run.well else ""


def _quick(evidence: Evidence) -> Answer:
    run, alone = evidence.run, evidence.alone
    if not evidence.parts.workers or alone is None or not (run.pace and alone.pace):
        return False, "" if evidence.parts.workers else "there are no workers"
    if run.pace < _FASTER * alone.pace:
        return True, "batches come faster with workers than without"
    return False, "batches didn't come faster with workers than without, in a short run"
