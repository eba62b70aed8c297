"""Compare two runs of a loader: which samples differ, and whether their results do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING, Final

from dltutor.diagnosis.measures import Measures

if TYPE_CHECKING:
    from dltutor.diagnosis.evidence import Evidence


@dataclass(frozen=True)
class Difference:
    """How the same epoch of two runs differs.

    Args:
        epoch: Its number, from 0.
        whole: Whether both runs finished it. If not, their beginnings were compared.
        came: How many samples the run has.
        expected: How many the other run has.
        more: How many samples of the run the other doesn't have, or has less often.
        missing: How many samples of the other run this one doesn't have, or has less often.
        twice: How many samples arrive more than once in the run, but at most once in the other.
        replayed: Whether both have the same samples and the same number of them, and some arrive
            several times in the other run too, because an epoch is longer than the data.
        unit: What was counted: "samples", or "batches" if those can't be taken apart.
    """

    epoch: int
    whole: bool
    came: int
    expected: int
    more: int
    missing: int
    twice: int
    replayed: bool
    unit: str

    @property
    def any(self) -> bool:
        """Whether the two differ."""
        return bool(self.more or self.missing)


def with_workers(evidence: Evidence) -> Difference | None:
    """Return the first epoch that differs with and without workers, or epoch 0 if none does.

    None means that nothing can be compared. Finished epochs are compared regardless of the order.
    Unfinished ones are compared by their beginning, if the sampler deals out the same order each
    time. After the first epoch, a sampler that shuffles doesn't: torch draws a seed per epoch for
    new workers but not for persistent ones, so the sampler gets different random numbers.
    """
    run, alone, fetched = evidence.run, evidence.alone, evidence.fetched
    if alone is None or not (run.well and alone.well):
        return None
    parts = evidence.parts
    in_order = parts.in_order and fetched is not None and not fetched.dealt_once
    found = [
        each
        for epoch in range(min(len(run.passes), len(alone.passes)))
        if (each := between(run, alone, epoch, in_order=in_order and (parts.ordered or not epoch)))
        is not None
    ]
    return next((each for each in found if each.any), found[0] if found else None)


EXACT: Final = 1e-4  # relative; times differ by more
_RESULT: Final = 0.05  # relative; sums of the same samples in another order differ by far less


def results_differ(run: Measures, alone: Measures) -> bool:
    """Return whether the loop's numbers differ with and without workers.

    They aren't compared if one is zero without workers, because it may be a measurement of them.
    """
    both = bool(run.numbers and alone.numbers) and all(alone.numbers)
    return both and not close(run.numbers, alone.numbers, _RESULT)


def same_input(run: Measures, alone: Measures, reordered: Measures | None = None) -> bool:
    """Whether the loop got the same samples in both runs, so that what it returns can be compared.

    Args:
        run: With workers.
        alone: Without.
        reordered: Another run without, after which the loop returned the same. If its order
            differs, the order makes no difference.
    """
    ours, theirs = run.contents[:1], alone.contents[:1]
    if not any(ours) or len(run.contents) != len(alone.contents):
        return False
    if ours == theirs:
        return True
    shuffled = reordered is not None and reordered.contents[:1] != theirs
    return shuffled and Counter(ours[0]) == Counter(theirs[0])


def close(ours: Sequence[float], theirs: Sequence[float], apart: float) -> bool:
    """Return whether two loops returned the same numbers, up to a relative difference `apart`."""
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(isclose(a, b, rel_tol=apart, abs_tol=1e-9) or (a != a and b != b) for a, b in pairs)


def between(
    run: Measures, other: Measures, epoch: int = 0, *, in_order: bool = False
) -> Difference | None:
    """Return how an epoch of two runs differs, or None if it can't be compared.

    Beginnings of epochs are compared only if both runs have the same order, `in_order`.
    """
    both = (run, other)
    if any(len(each.passes) <= epoch for each in both):
        return None
    whole = all(each.finished[epoch] for each in both)
    if not whole and not in_order:
        return None
    apart = all(len(each.drawn[epoch]) == each.counted[epoch] for each in both)
    one, two = ((each.drawn if apart else each.passes)[epoch] for each in both)
    if not whole:
        most = min(len(one), len(two))
        one, two = one[:most], two[:most]
    if not (one and two):
        return None
    ours, theirs = Counter(one), Counter(two)
    return Difference(
        epoch=epoch,
        whole=whole,
        came=len(one),
        expected=len(two),
        more=(ours - theirs).total(),
        missing=(theirs - ours).total(),
        twice=sum(count > max(theirs[each], 1) for each, count in ours.items()),
        replayed=ours.keys() == theirs.keys() and len(one) == len(two) and max(theirs.values()) > 1,
        unit="samples" if apart else "batches",
    )
