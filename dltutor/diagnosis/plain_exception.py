"""Report an ordinary exception from a sample, a batch, the sampler, or the loop itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.messages import advice
from dltutor.diagnosis.rules.culprits import how_many, raising

_WRONG: Final = ("complete", "same", "independent")
_WITH_WORKERS: Final = "Your code raises an exception, but only with workers."
_ANYHOW: Final = "Your code raises an exception. It does so without workers, too."


def raises(evidence: Evidence, others: Sequence[Finding]) -> list[Finding]:
    """Return the finding "raises" if the run raised or main died, and no other finding says why.

    Args:
        evidence: The evidence from one examination.
        others: The other findings, which may explain the exception.

    Returns:
        A list with the finding, or [].
    """
    run, alone = evidence.run, evidence.alone
    if run.end not in ("raised", "main died"):
        return []
    without = alone is not None and alone.end == run.end and alone.kind in (run.kind, run.raised)
    anyhow = without or raising(evidence, "sample", "collate", "sampler") is not None
    # If your code also raises the exception without workers, only a finding whose certainty is
    # "shown" can explain it.
    if any(each.ended and (each.shown or not anyhow) for each in others):
        return []
    if not anyhow and any(each.shown and each.promise in _WRONG for each in others):
        return []
    said, where, fix = _described(evidence, without=without)
    cause = _ANYHOW if anyhow else _WITH_WORKERS
    if not evidence.parts.workers:
        cause = "Your code raises an exception."
    return [Finding(said, where, fix, cause, "ends", "raises")]


def _described(evidence: Evidence, *, without: bool) -> tuple[str, str, str]:
    run, parts = evidence.run, evidence.parts
    said = f"The loop ended with {(run.error or run.end).rstrip('.')}."
    where = run.line or (parts.where if run.raised else "")
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
    if arriving := raising(evidence, "arrival"):
        said += f" A worker sent {arriving.which}, and main raises this when it unpickles it."
        fix = (
            "Unpickling makes an object without calling `__init__`, so don't let `__getattr__` or "
            "`__setstate__` use an attribute that isn't there yet: raise AttributeError for names "
            "that begin with an underscore. Or have `collate_fn` return plain tensors."
        )
        return said, arriving.at or where, fix
    known_fix = advice(run.said)
    failed = evidence.in_workers.failed if evidence.in_workers is not None else ()
    known = [each for each in failed if each[1] in (run.raised, run.kind)]
    if known:
        index, _, _, line = known[0]
        said += f" In a worker, dataset[{index}] raises it. In the main process, it doesn't."
        fix = known_fix or "Look for what a worker doesn't have, at the line above."
        return said, line or where, fix
    if run.raised is None and without:
        said += f" It does so without workers, too. {run.batches} batches had arrived."
        at = "in your loop, at the line above" if parts.loop else "at the line above"
        return said, where, known_fix or f"Look at what happens {at}."
    return said, where, known_fix or ("Look at the line above." if where else "")
