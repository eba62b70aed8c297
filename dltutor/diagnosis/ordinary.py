"""Report an ordinary exception from a sample, a batch, the sampler, or the loop itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dltutor.diagnosis.diagnosis import Finding
from dltutor.diagnosis.evidence import Evidence, Fit
from dltutor.diagnosis.rules.culprits import how_many, raising

_WITH_WORKERS: Final = "Your code raises an exception, but only with workers."
_ANYHOW: Final = "Your code raises an exception. It does so without workers, too."


def raises(evidence: Evidence, others: Sequence[Fit]) -> tuple[Fit, Finding] | None:
    """Return the finding "raises"; None if the loop didn't raise, or a failure mode explains it.

    Args:
        evidence: The evidence of one visit.
        others: What else was found.
    """
    run = evidence.run
    if run.end not in ("raised", "main died"):
        return None
    anyhow = raising(evidence, "sample", "collate", "sampler") is not None or _without(evidence)
    if any(_explains(each, anyhow) for each in others):
        return None
    said, where, fix = _told(evidence)
    cause = _ANYHOW if anyhow else _WITH_WORKERS
    if not evidence.parts.workers:
        cause = "Your code raises an exception."
    fit = Fit("ends", "shown", said, where, fix)
    return fit, Finding("raises", "ends", "shown", said, where, cause, fix, "")


def _without(evidence: Evidence) -> bool:
    alone, run = evidence.alone, evidence.run
    return alone is not None and alone.end == run.end and alone.kind in (run.kind, run.raised)


def _explains(fit: Fit, anyhow: bool) -> bool:
    # An exception that your code also raises without workers stays one, whatever else is likely.
    if anyhow:
        return fit.harm == "ends" and fit.certainty == "shown"
    return fit.harm == "ends" or (fit.harm == "wrong" and fit.certainty == "shown")


def _told(evidence: Evidence) -> tuple[str, str, str]:
    run, parts = evidence.run, evidence.parts
    said = f"The loop ended with {(run.error or run.end).rstrip('.')}."
    where = next(iter(run.at), "") or (parts.where if run.raised else "")
    culprit = raising(evidence, "sample", "collate", "sampler")
    if culprit is not None and culprit.stage == "sample":
        said += f" In the main process, {culprit.which} raises it.{how_many(evidence)}"
        fix = f"Look at what {parts.dataset} does for {culprit.which}, at the line above."
        return said, culprit.at or where, fix
    if culprit is not None and culprit.stage == "collate":
        collate = parts.collate or "torch's default_collate"
        said += f" In the main process, {collate} raises it for {culprit.which}. {culprit.told}"
        return said.strip(), culprit.at or where, f"Look at what {collate} gets."
    if culprit is not None:
        said += f" The sampler, {parts.sampler}, raises it."
        return said, culprit.at or where, "Look at the sampler, at the line above."
    failed = evidence.in_workers.failed if evidence.in_workers is not None else ()
    known = [each for each in failed if each[1] in (run.raised, run.kind)]
    if known:
        index, _, _, line = known[0]
        said += f" In a worker, dataset[{index}] raises it. In the main process, it doesn't."
        return said, line or where, "Look for what a worker doesn't have, at the line above."
    if run.raised is None and _without(evidence):
        said += f" It does so without workers, too. {run.batches} batches had arrived."
        at = "in your loop, at the line above" if parts.loop else "at the line above"
        return said, where, f"Look at what happens {at}."
    return said, where, "Look at the line above." if where else ""
