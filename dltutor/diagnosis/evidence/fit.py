"""A Fit: what a failure mode says of a loader that has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Certainty = Literal["shown", "likely"]
#: How serious it is: the run ends; the data is wrong; memory or files run out; it is slow.
Harm = Literal["ends", "wrong", "memory", "slow"]


@dataclass(frozen=True)
class Fit:
    """Why a loader has a failure mode.

    Args:
        harm: How serious it is.
        certainty: "shown" if an experiment would have come out differently without the failure,
            "likely" if something else could explain it too.
        evidence: What was measured, in one or two sentences.
        where: The file and line, or the attribute path; "" where it cannot be known.
        fix: What to do with this loader, in its own names; "" for the failure mode's own remedy.
    """

    harm: Harm
    certainty: Certainty
    evidence: str
    where: str = ""
    fix: str = ""
