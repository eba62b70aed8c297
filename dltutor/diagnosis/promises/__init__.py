"""Find the promises that a loader breaks, even if no failure mode explains why.

If a failure mode does explain why, the failure mode is the finding instead. Each of the seven
promises has a module, in which each public function looks for one way to break the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.promises import bounded, clean, complete, ends, independent, quick, same
from dltutor.failures import Promise

_SAME_DATA: Final[frozenset[Promise]] = frozenset(("ends", "complete", "same", "independent"))


def broken(evidence: Evidence, explained: Collection[Promise]) -> tuple[Finding, ...]:
    """Return findings for the broken promises that no other finding explains.

    Args:
        evidence: The evidence from one examination.
        explained: The broken promises that other findings already explain.
    """
    explained = set(explained)
    found: list[Finding] = []
    if "ends" not in explained:
        found += _each(evidence, complete.no_batch_from_workers)
        found += _each(evidence, ends.hangs, ends.breaks_off, ends.late, ends.goes_on)
    if not explained & _SAME_DATA:
        found += _each(evidence, same.lost, same.narrowed)
        found += _each(evidence, same.repeats_with_workers, same.changed_by_loop)
        found += _each(evidence, complete.reused)
        found += _each(evidence, independent.order, independent.left_early, independent.seeded)
        found += _each(evidence, independent.seeded_by_index)
        found += _each(evidence, independent.repeated, independent.put_back, independent.restarted)
        found += _each(evidence, independent.collides, independent.kept, independent.salted)
        # Look only until there's a finding, because further findings may have the same cause.
        looks = (
            independent.stuck,
            same.reordered,
            same.differs,
            complete.overlaps,
            independent.duplicated,
            same.raced,
            complete.counts,
            complete.announced,
            complete.dealt,
            complete.left_out,
            complete.between_ranks,
            complete.epochs,
        )
        for look in looks:
            found = found or [*look(evidence)]
    if not explained:  # a failure mode may also change what the loop returns
        found = found or [*same.out_of_turn(evidence), *same.results(evidence)]
    if "bounded" not in explained:
        found += [*bounded.opened(evidence)] or [*bounded.opened_in_workers(evidence)]
        found += _each(evidence, bounded.held, bounded.grows, bounded.grows_on_gpu)
    if "clean" not in explained:
        found += _each(evidence, clean.processes, clean.workers, clean.threads)
        found += _each(evidence, clean.temporary_files, clean.by_samples)
    found += _each(evidence, quick.uneven, quick.pickled, quick.dealing)
    found += _each(evidence, quick.unpinned, quick.carried)
    if "quick" not in {each.promise for each in found}:
        found += _each(evidence, quick.recomputed, quick.redone, quick.works_again)
    for look in (quick.climbing, quick.starts, quick.slower):
        if "quick" not in (*explained, *(each.promise for each in found)):
            found += look(evidence)
    return tuple(found)


def _each(evidence: Evidence, *looks: Callable[[Evidence], Iterable[Finding]]) -> list[Finding]:
    return [broken for look in looks for broken in look(evidence)]
