"""What the evidence means: the failure modes that fit, and the promises that are broken anyhow."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from dltutor.diagnosis import promises
from dltutor.diagnosis.diagnosis import Finding
from dltutor.diagnosis.evidence import Evidence, Fit, Harm
from dltutor.diagnosis.messages import explain
from dltutor.diagnosis.ordinary import raises
from dltutor.diagnosis.rules import RULES
from dltutor.failures import FACTS, Facts, Promise

_ORDER: Final[tuple[Harm, ...]] = ("ends", "wrong", "memory", "slow")
_HARM: Final[dict[Promise, Harm]] = {
    "ends": "ends",
    "complete": "wrong",
    "same": "wrong",
    "independent": "wrong",
    "bounded": "memory",
    "clean": "memory",
    "quick": "slow",
}


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """What is wrong, the most serious first.

    Args:
        evidence: Of one visit.
    """
    fits = _named(evidence)
    if own := raises(evidence, [fit for fit, _ in fits]):
        fits.append(own)
    fits = _said(evidence, fits)
    # What is only likely explains no more than its own promise.
    explained = {finding.promise for _, finding in fits if finding.certainty == "shown"}
    explained |= {"ends" for fit, _ in fits if fit.harm == "ends"}
    likely = {finding.promise for _, finding in fits} - explained
    for each in promises.broken(evidence, explained):
        if each.promise in likely:
            continue
        fit = Fit(_HARM[each.promise], each.certainty, each.evidence, each.where, each.fix)
        finding = Finding(name=each.promise, lesson="", **asdict(each))
        fits.append((fit, finding))
    fits.sort(key=lambda each: (_ORDER.index(each[0].harm), each[0].certainty != "shown"))
    return tuple(finding for _, finding in fits)


def _named(evidence: Evidence) -> list[tuple[Fit, Finding]]:
    fits = ((mode, RULES[mode.name](evidence)) for mode in FACTS)
    return [(fit, _finding(mode, fit)) for mode, fit in fits if fit is not None]


def _said(evidence: Evidence, fits: list[tuple[Fit, Finding]]) -> list[tuple[Fit, Finding]]:
    # What the run itself said, in words that are known: a library often knows why it ends. Then it
    # says more than that a worker died.
    run = evidence.run
    others = [each for each in fits if each[1].name != _SYMPTOM]
    if run.well or any(fit.harm == "ends" for fit, _ in others):
        return fits
    for match in explain(run.said):
        mode, words = match.failure, match.words[0]
        if mode.name == _SYMPTOM or not match.certain:
            continue
        said = f"The run {_ENDED.get(run.end, run.end)}, and said {words!r} ({match.source})."
        fit = Fit("ends", "likely", said, next(iter(run.at), run.stood))
        return [*others, (fit, _finding(mode, fit))]
    return fits


_SYMPTOM: Final = "dead_worker"
_ENDED: Final = {"hung": "stood still", "raised": "raised", "worker died": "lost a worker"}


def _finding(mode: Facts, fit: Fit) -> Finding:
    fix = fit.fix or mode.remedy
    return Finding(
        mode.name,
        mode.promise,
        fit.certainty,
        fit.evidence,
        fit.where,
        mode.cause,
        fix,
        mode.lesson,
    )
