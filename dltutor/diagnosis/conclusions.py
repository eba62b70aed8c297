"""Find the failure modes that fit the evidence, and the broken promises that none explains."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dltutor.diagnosis import promises
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.messages import explain
from dltutor.diagnosis.plain_exception import raises
from dltutor.diagnosis.rules import RULES
from dltutor.failures import FACTS, Facts

_SYMPTOM: Final = "dead_worker"
_ENDED: Final = {"hung": "hung", "raised": "raised", "worker died": "lost a worker"}


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings that the evidence supports, the most serious first."""
    fits = ((mode, RULES[mode.name](evidence)) for mode in FACTS)
    found = [_completed(mode, fit) for mode, fit in fits if fit is not None]
    found += raises(evidence, found)
    found = _named_in_output(evidence, found)
    # A finding that's "shown", or that ended the run, may also explain other broken promises. Any
    # other finding explains only the promise that it breaks.
    explained = {each.promise for each in found if each.shown}
    explained |= {"ends" for each in found if each.ended}
    likely = {each.promise for each in found} - explained
    for each in promises.broken(evidence, explained):
        if each.promise not in likely:
            found.append(replace(each, name=each.promise))
    return tuple(sorted(found, key=lambda each: each.rank))


def _completed(mode: Facts, fit: Finding) -> Finding:
    return replace(
        fit,
        name=mode.name,
        promise=mode.promise,
        cause=fit.cause or mode.cause,
        fix=fit.fix or mode.fix,
        lesson=mode.lesson,
    )


def _named_in_output(evidence: Evidence, found: list[Finding]) -> list[Finding]:
    # If no finding except "dead_worker" says why the run ended, look for a known message in the
    # run's exceptions and stderr. A failure mode that a message names says more, so it replaces
    # "dead_worker".
    run = evidence.run
    others = [each for each in found if each.name != _SYMPTOM]
    if run.well or any(each.ended for each in others):
        return found
    for match in explain(run.said):
        mode, words = match.failure, match.words[0]
        if mode.name == _SYMPTOM or not match.certain:
            continue
        said = f"The run {_ENDED.get(run.end, run.end)}, and printed {words!r} ({match.source})."
        where = run.line or run.stood
        return [*others, _completed(mode, Finding(said, where, certainty="likely", ends=True))]
    return found
