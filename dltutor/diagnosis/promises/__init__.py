"""The seven promises: which of them a loader keeps, breaks, or could not be tested for.

A broken promise is a finding even if no failure mode explains it. If one does, the failure mode is
the finding, because it says why. Each function of `ends`, `data`, and `resources` looks for one way
to break a promise that shows in the measurements, whatever the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.promises import data, ends, resources
from dltutor.diagnosis.promises.broken import Broken
from dltutor.failures import Promise

_SAME_DATA: Final[frozenset[Promise]] = frozenset(("ends", "complete", "same", "independent"))


def broken(evidence: Evidence, explained: Collection[Promise]) -> tuple[Broken, ...]:
    """Return the broken promises that no other finding explains.

    Args:
        evidence: Of one visit.
        explained: The promises that other findings break.
    """
    explained = set(explained)
    found: list[Broken] = []
    if "ends" not in explained:
        found += _each(evidence, ends.no_batch, ends.hangs, ends.breaks_off, ends.late)
    if not explained & _SAME_DATA:
        found += _each(evidence, data.fetched, data.fields, data.replaced, data.order, data.told)
        found += _each(evidence, data.seeded, data.repeated, data.collides)
        found += _each(evidence, data.crossed, data.reused)
        if not found:
            found += data.stuck(evidence)
        # The first of these says the most, and the others may have the same cause.
        for look in (data.reordered, data.differs, data.dealt, data.epochs, data.results):
            found = found or [*look(evidence)]
    if "bounded" not in explained:
        found += _each(evidence, resources.opened, resources.held, resources.grows)
    if "clean" not in explained:
        found += _each(evidence, resources.left)
    found += _each(evidence, resources.reread, resources.pickled, resources.dealing, resources.idle)
    if "quick" not in {each.promise for each in found}:
        found += _each(evidence, resources.scattered, resources.repeated, resources.uneven)
    for look in (resources.starts, resources.slower):
        if "quick" not in (*explained, *(each.promise for each in found)):
            found += look(evidence)
    return tuple(found)


def _each(evidence: Evidence, *looks: Callable[[Evidence], Iterable[Broken]]) -> list[Broken]:
    return [broken for look in looks for broken in look(evidence)]
