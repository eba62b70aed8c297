"""What the evidence means: the failure modes that fit, and what will fail elsewhere."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.diagnosis import Finding
from dltutor.failures import CATALOGUE
from dltutor.failures.kit.evidence import Evidence, Fit, Harm

_ORDER: Final[tuple[Harm, ...]] = ("ends", "wrong", "memory", "slow")


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """What is wrong, the most serious first.

    Args:
        evidence: Of one visit.
    """
    fits: list[tuple[Fit, Finding]] = []
    for failure in CATALOGUE:
        fit = failure.fits(evidence)
        if fit is not None:
            fix = fit.fix or failure.remedy
            finding = Finding(
                failure.name,
                fit.certainty,
                fit.evidence,
                fit.where,
                failure.cause,
                fix,
                failure.lesson,
            )
            fits.append((fit, finding))
    if not any(fit.harm == "ends" for fit, _ in fits) and (own := _raises(evidence)):
        fits.append(own)
    fits.sort(key=lambda each: (_ORDER.index(each[0].harm), each[0].certainty != "shown"))
    return tuple(finding for _, finding in fits)


def _raises(evidence: Evidence) -> tuple[Fit, Finding] | None:
    """An ordinary exception of the user's code, with its sample and its line."""
    run, samples = evidence.run, evidence.samples
    if run.end not in ("raised", "main died"):
        return None
    where = run.at[0] if run.at else ""
    said = f"The loop ended with {run.error}."
    if samples and samples.failed:
        index, kind, text, line = samples.failed[0]
        where = line or where
        count = len(samples.failed)
        said += (
            f" Drawn without workers, dataset[{index}] raises the same: {kind}: {text}."
            if kind == (run.raised or run.kind)
            else f" Drawn without workers, dataset[{index}] raises {kind}: {text}."
        )
        if count > 1:
            said += f" So do {count - 1} more of the samples that were tried."
    fit = Fit("ends", "shown", said, where)
    cause = "An exception in your code. The workers have nothing to do with it."
    if evidence.alone is not None and evidence.alone.well:
        cause = "An exception in your code that comes with workers only."
    return fit, Finding("raises", "shown", said, where, cause, "Look at the line above.", "")


def elsewhere(evidence: Evidence) -> tuple[str, ...]:
    """What will fail on another machine, or with another start method."""
    return ()
