"""Say what failed and how often, for the rules of several failure modes."""

from __future__ import annotations

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.probes.culprit import Culprit
from dltutor.observation.texts import signal_name


def raising(evidence: Evidence, *stages: str) -> Culprit | None:
    """Return the first failure in main if its exception is of the type that ended the run, or None.

    Args:
        evidence: The evidence from one examination.
        stages: What may have failed, such as "sampler" (default: "sample" and "collate"). See
            `Culprit.stage`.
    """
    run, culprit = evidence.run, evidence.culprit
    if culprit is None or culprit.stage not in (stages or ("sample", "collate")):
        return None
    return culprit if run.end == "raised" and culprit.kind in (run.kind, run.raised) else None


def how_many(evidence: Evidence) -> str:
    """Return a space and a sentence that says how many samples fail, or "" if at most one does."""
    samples = evidence.samples
    if samples is None or len(samples.failed) < 2:
        return ""
    tried = samples.looked + len(samples.failed)
    return f" {len(samples.failed)} of the {tried} samples that the doctor tried fail."


def fate(code: int | None) -> str:
    """Return what ended a process, such as "SIGKILL" or "exit code 1", or "gone" without a code."""
    return signal_name(code) or ("gone" if code is None else f"exit code {code}")
