"""By which samples two runs of a loader differ, whatever the order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dltutor.diagnosis.evidence import Run


@dataclass(frozen=True)
class Difference:
    """The first epoch of one run, beside that of another.

    Args:
        came: How many samples the one has.
        expected: How many the other has.
        more: How many of the one's the other doesn't have, or not as often.
        missing: How many of the other's the one doesn't have, or not as often.
        twice: How many of the one's came more than once, and no more than once in the other.
        unit: What was counted: "samples", or "batches" where those can't be taken apart.
    """

    came: int
    expected: int
    more: int
    missing: int
    twice: int
    unit: str

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self.more or self.missing)


def between(run: Run, other: Run) -> Difference | None:
    """The difference, or None if the two can't be compared: an epoch has to come to its end.

    Args:
        run: One run.
        other: The other.
    """
    if not (run.finished[:1] == other.finished[:1] == (True,)):
        return None
    apart = all(len(each.drawn[0]) == each.counted[0] for each in (run, other))
    for unit, one, two in (
        ("samples", run.drawn[0], other.drawn[0]),
        ("batches", run.passes[0], other.passes[0]),
    ):
        if one and two and (apart or unit == "batches"):
            ours, theirs = Counter(one), Counter(two)
            return Difference(
                came=len(one),
                expected=len(two),
                more=(ours - theirs).total(),
                missing=(theirs - ours).total(),
                twice=sum(count > max(theirs[each], 1) for each, count in ours.items()),
                unit=unit,
            )
    return None
