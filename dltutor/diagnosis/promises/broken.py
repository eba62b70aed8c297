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
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            break
    count = seconds / size
    if unit == "s":
        return f"{count:.1f} s"
    return f"{count:.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"
