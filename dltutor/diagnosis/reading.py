"""What the evidence means: the failure modes that fit."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.diagnosis import Finding
from dltutor.diagnosis.ordinary import raises
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
    if own := raises(evidence, [fit for fit, _ in fits]):
        fits.append(own)
    fits.sort(key=lambda each: (_ORDER.index(each[0].harm), each[0].certainty != "shown"))
    return tuple(finding for _, finding in fits)
