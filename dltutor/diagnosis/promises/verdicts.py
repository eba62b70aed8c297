"""Give a verdict on each of the seven promises, and say how we know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dltutor.diagnosis.difference import recut, with_workers
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.failures import PROMISES, Promise
from dltutor.observation.growth import LATE

State = Literal["kept", "broken", "not tested"]

_LONG: Final = 60  # characters; a longer reason appears only once
_FASTER: Final = 0.9  # a batch counts as faster below this share of its time without workers


@dataclass(frozen=True)
class Verdict:
    """The verdict on one promise.

    Args:
        promise: The promise's name.
        state: Whether the loader keeps or breaks the promise, or the doctor couldn't test it.
        said: How we know, or why we don't.
    """

    promise: Promise
    state: State
    said: str


def verdicts(
    evidence: Evidence, found: Sequence[Promise], untried: Sequence[str]
) -> tuple[Verdict, ...]:
    """Give a verdict on each promise, in the order of `PROMISES`.

    Args:
        evidence: The evidence from one examination.
        found: The promise that each finding breaks, in the order of the report.
        untried: Why some questions have no answer.
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
        if not well and len(why) > _LONG and any(each.said == why for each in verdicts):
            why = "for the same reason"
        verdicts.append(Verdict(promise, "kept" if well else "not tested", why))
    return tuple(verdicts)


#: Whether the loader keeps a promise, and a reason: how we know, or why we don't. If the reason is
#: "", the verdict says instead why the first unanswered question has no answer.
Answer = tuple[bool, str]


def _ended(evidence: Evidence) -> Answer:
    run = evidence.run
    if not run.well:
        return False, ""
    if any(run.finished):
        epochs = sum(run.finished)
        return True, f"{epochs} epoch{'s' * (epochs > 1)} ended, and {run.batches} batches arrived"
    return False, f"{run.batches} batches arrived, but {_cut(run)} before an epoch ended"


def _cut(run: Measures | None) -> str:
    left = run is not None and run.end == "finished"
    return "the loop stopped" if left else "time ran out"


_NOT_ALIKE: Final = "the samples of the two epochs can't be compared one to one"
_TOGETHER: Final = "the samples of several shuffled loaders come together in another way each time"


def _complete(evidence: Evidence) -> Answer:
    run, alone = evidence.run, evidence.alone
    if not (run.well and run.finished[:1] == (True,) and run.batches):
        return False, "no epoch reached its end"
    if not evidence.parts.workers:
        return True, f"{run.counted[0]} samples arrived"
    if alone is None or alone.finished[:1] != (True,):
        return False, f"{_cut(alone)} before an epoch without workers ended"
    if evidence.shares is not None and evidence.shares.alike:
        return True, f"{evidence.shares.whole} samples were drawn, with workers and without"
    difference = with_workers(evidence)
    if evidence.parts.stream and difference is not None and difference.any:
        if not recut(run, alone):
            return False, "samples are random, so only their number can be compared"
        return True, "all values arrived, with workers and without, cut into different samples"
    if difference is not None and difference.whole and difference.came == difference.expected:
        of = evidence.parts.length if difference.unit == "samples" else None
        came = f"{difference.came} of {of}" if of and difference.came < of else difference.came
        return True, f"{came} {difference.unit} arrived, with workers and without"
    return False, _TOGETHER if evidence.parts.mixed else _NOT_ALIKE


def _same(evidence: Evidence) -> Answer:
    difference, fetched = with_workers(evidence), evidence.fetched
    if difference is not None and not difference.any:
        return True, f"{difference.came} {difference.unit} match the run without workers"
    if fetched is not None and fetched.looked and not fetched.differ:
        return True, f"{fetched.looked} samples match `dataset[i]`, with random numbers held"
    if evidence.shares is not None and evidence.shares.alike:
        return True, "all samples match, but the batches are made of other samples, as expected"
    if difference is not None and evidence.alone is not None:
        if recut(evidence.run, evidence.alone):
            return True, "the same values arrive with workers and without, cut into other samples"
        return False, "samples are random, so they differ from run to run"
    return False, _TOGETHER if evidence.parts.mixed else "no epoch reached its end"


def _independent(evidence: Evidence) -> Answer:
    samples, repeats = evidence.samples, evidence.repeats
    if repeats is not None and repeats.sources:
        if any(same == compared > 2 for _, _, same, compared, _, _ in repeats.sources):
            return (
                False,
                "draws repeat in another worker, but that may be only the order of samples",
            )
        return True, "random numbers differed in each worker and epoch"
    if samples is None or not samples.looked or samples.random or samples.joined:
        return False, ""
    if evidence.parts.stream:
        return False, "the random numbers of a stream weren't compared"
    return True, "no sample is random"


def _bounded(evidence: Evidence) -> Answer:
    memory, run = evidence.memory, evidence.run
    if not evidence.parts.workers:
        return False, "there's no worker whose memory could grow"
    if memory is not None and memory.late_as_it_is >= LATE / 3:
        grew = (
            f"workers' own memory grew by {memory.late_as_it_is:.0f} MB after their first samples"
        )
        return False, f"{grew}, and the run was too short to say if that stops"
    if memory is not None and memory.late_as_it_is >= 0:
        return True, "memory that workers took after their first samples was freed, or has a limit"
    if not run.private or not run.well:
        return False, ""
    if max(most - first for first, most in run.private) > LATE:
        return False, "a worker's own memory grew, and the run was too short to say if that stops"
    return True, f"no worker's own memory grew by more than {LATE:.0f} MB in the run"


def _clean(evidence: Evidence) -> Answer:
    if evidence.leftover is not None:
        return True, "no worker was left after the loop"
    samples = evidence.samples
    if samples is not None and samples.left is not None:
        return True, "drawing samples again left no thread, process, or temporary file"
    return False, "no epoch was left early" if evidence.run.well else ""


def _quick(evidence: Evidence) -> Answer:
    run, alone = evidence.run, evidence.alone
    if not evidence.parts.workers or alone is None or not (run.pace and alone.pace):
        return False, "" if evidence.parts.workers else "there are no workers"
    if run.pace < _FASTER * alone.pace:
        return True, "batches arrive faster with workers than without"
    return False, "in a short run, batches didn't arrive faster with workers than without"
