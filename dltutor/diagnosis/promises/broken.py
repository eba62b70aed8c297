"""What the doctor says about a broken promise."""

from __future__ import annotations

from dataclasses import dataclass

from dltutor.diagnosis.evidence import Certainty
from dltutor.failures import Promise


@dataclass(frozen=True)
class Broken:
    """A promise that a loader breaks, whatever the reason.

    Args:
        promise: Its name.
        certainty: As in a Fit.
        evidence: What was measured.
        where: As far as it could be narrowed down, or "" if it couldn't.
        cause: Why, or how we know that something is wrong.
        fix: What to do, or to try next.
    """

    promise: Promise
    certainty: Certainty
    evidence: str
    where: str
    cause: str
    fix: str


def duration(seconds: float) -> str:
    """Write seconds the way people do: "4.1 s", "36 ms"."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.2g} ms" if seconds >= 0.001 else f"{1e6 * seconds:.2g} µs"
