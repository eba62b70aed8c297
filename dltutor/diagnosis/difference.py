"""Compare two runs of a loader: how many samples differ, and whether the loop's results do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Final

import numpy as np

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.objects import ngrams


@dataclass(frozen=True)
class Difference:
    """Counts that say how the samples of two runs differ in one epoch.

    Args:
        epoch: The epoch's number, from 0.
        whole: Whether both runs finished the epoch. If not, the counts are about the epoch's
            beginning.
        came: How many samples the first run has.
        expected: How many samples the second run has.
        more: How many samples the first run has that the second doesn't have, or has less often.
            Each extra repeat counts.
        other: How many different samples the first run has that the second doesn't have at all.
        missing: How many samples the second run has that the first doesn't have, or has less often.
            Each extra repeat counts.
        twice: How many samples the first run repeats, and has more often than the second.
        replayed: Whether both runs have the same distinct samples and the same total, and the
            second run repeats some. That's the case if an epoch is longer than the data.
        unit: What the counts are of: "samples", or "batches" if batches can't be taken apart.
    """

    epoch: int
    whole: bool
    came: int
    expected: int
    more: int
    other: int
    missing: int
    twice: int
    replayed: bool
    unit: str

    @property
    def any(self) -> bool:
        """Whether the two runs have different samples, or have them different numbers of times."""
        return bool(self.more or self.missing)


def with_workers(evidence: Evidence) -> Difference | None:
    """Compare epochs with and without workers, and return a Difference for the first that differs.

    If no epoch differs, return the Difference for the first epoch that can be compared. If a run
    failed or is missing, if no epoch can be compared, or if a wrapper has several loaders, one of
    which doesn't go in order, return None.

    Compare finished epochs regardless of the order, and the beginnings of unfinished ones if
    batches arrive in the sampler's order and that order is the same in both runs. If the sampler
    shuffles, its order is the same only in the first epoch. After that, the sampler's random
    numbers may differ, because torch draws a seed for each new iterator, and a loader with
    persistent workers keeps its iterator.
    """
    run, alone, fetched = evidence.run, evidence.alone, evidence.fetched
    parts = evidence.parts
    if alone is None or not (run.well and alone.well) or parts.mixed:
        return None
    in_order = parts.in_order and fetched is not None and not fetched.dealt_once
    found = [
        each
        for epoch in range(min(len(run.passes), len(alone.passes)))
        if (each := between(run, alone, epoch, in_order=in_order and (parts.ordered or not epoch)))
        is not None
    ]
    return next((each for each in found if each.any), found[0] if found else None)


def resumes_elsewhere(run: Measures, alone: Measures) -> int:
    """Return which iteration goes on at another sample with workers, or 0 if none does.

    That's the first iteration whose length differs between the runs, if the loop left the one
    before it early in both. The run in which the iteration is shorter must have reached the
    iteration's end, because otherwise the loop may have cut the iteration short. If only one run
    has the iteration, that run must have reached the iteration's end. Both runs must have finished.

    Args:
        run: A run with workers.
        alone: A run without workers.
    """
    least, most = sorted((len(run.counted), len(alone.counted)))
    at = next((at for at in range(least) if run.counted[at] != alone.counted[at]), least)
    if not at or at == most or {run.end, alone.end} != {"finished"}:
        return 0
    if run.finished[at - 1] or alone.finished[at - 1]:
        return 0
    both = [each for each in (run, alone) if at < len(each.counted)]
    return at if min(both, key=lambda each: each.counted[at]).finished[at] else 0


def recut(run: Measures, alone: Measures) -> bool:
    """Return whether a stream's first epoch has nearly the same values in both runs.

    If so, different samples only mean that the stream was cut into samples at other places. If the
    epoch didn't finish in both runs, or there are no values to compare, return False.
    """
    if not run.finished[:1] == alone.finished[:1] == (True,):
        return False
    return bool(run.ngrams and alone.ngrams) and ngrams.alike(
        np.array(run.ngrams), np.array(alone.ngrams)
    )


EXACT: Final = 1e-4  # relative difference; equal results differ by less, and measured times by more
RESULT: Final = 0.05  # relative difference; adding in another order changes a sum by far less


def results_differ(run: Measures, alone: Measures) -> bool:
    """Return whether the loop's numbers in two runs differ by more than 5 percent.

    Also return True if one run has more numbers than the other. But if a run has no numbers, return
    False. Leave out each number that's zero in `alone`, because it may count the workers.
    """
    if len(run.numbers) != len(alone.numbers):
        return bool(run.numbers and alone.numbers)
    pairs = [(a, b) for a, b in zip(run.numbers, alone.numbers, strict=True) if b]
    return not close([a for a, _ in pairs], [b for _, b in pairs], RESULT)


def same_input(run: Measures, alone: Measures, reordered: Measures | None = None) -> bool:
    """Return whether two runs have the same samples in the first epoch, and equally many epochs.

    If so, the loop's results can be compared.

    Args:
        run: The run with workers.
        alone: The run without workers.
        reordered: Another run without workers, in which the loop returned the same result. If that
            run's samples arrived in a different order, the order makes no difference to the loop.
            If `reordered` is None (the default), the order counts.
    """
    ours, theirs = run.contents[:1], alone.contents[:1]
    if not any(ours) or len(run.contents) != len(alone.contents):
        return False
    if ours == theirs:
        return True
    shuffled = reordered is not None and reordered.contents[:1] != theirs
    return shuffled and Counter(ours[0]) == Counter(theirs[0])


def comparable_results(evidence: Evidence) -> tuple[Measures, Measures] | None:
    """Return a run with workers and one without, in which the loop's results should be the same.

    Return None if there are no such runs, for example because a result is a time.
    """
    run, alone = evidence.run, evidence.alone
    reseeded, seeded = evidence.reseeded, evidence.seeded
    if alone is None or reseeded is None or seeded is None or not evidence.parts.loop:
        return None
    if not all(each.end == "finished" for each in (run, alone, reseeded, seeded)):
        return None
    if close(alone.numbers, reseeded.numbers, EXACT):
        # Also require that two runs with workers agree, because an amount of memory, counted in
        # pages, can be the same in two runs by chance.
        agree = close(run.numbers, seeded.numbers, EXACT)
        return (run, alone) if agree and same_input(run, alone, reseeded) else None
    return (seeded, reseeded) if same_input(seeded, reseeded) else None


def meant_to_repeat(evidence: Evidence) -> bool:
    """Return whether another seed changes the samples, but runs with the same seed should be equal.

    They should be equal if the loader has its own generator and delivers batches in order.
    """
    return evidence.parts.generator and evidence.parts.in_order and evidence.by_seed > 0


def repeats_without_workers(evidence: Evidence) -> bool:
    """Return whether runs with the same seed should be equal, and two without workers are."""
    reseeded, repeated = evidence.reseeded, evidence.repeated
    if not meant_to_repeat(evidence) or reseeded is None or repeated is None:
        return False
    found = between(reseeded, repeated, in_order=True)
    return found is not None and not found.any


def close(ours: Sequence[float], theirs: Sequence[float], apart: float) -> bool:
    """Return whether two loops returned the same numbers, up to the relative difference `apart`.

    Two NaNs count as the same number.
    """
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(isclose(a, b, rel_tol=apart, abs_tol=1e-9) or (a != a and b != b) for a, b in pairs)


def between(
    run: Measures, other: Measures, epoch: int = 0, *, in_order: bool = False
) -> Difference | None:
    """Return the Difference of two runs in an epoch (by default, epoch 0), or None if unknown.

    Compare the beginnings of unfinished epochs only if `in_order` says that both runs have the same
    order.
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
        other=len(ours.keys() - theirs.keys()),
        missing=(theirs - ours).total(),
        twice=sum(count > max(theirs[each], 1) for each, count in ours.items()),
        replayed=ours.keys() == theirs.keys() and len(one) == len(two) and max(theirs.values()) > 1,
        unit="samples" if apart else "batches",
    )


@dataclass(frozen=True)
class FieldDifference:
    """The difference between a field's values with workers and without, in one epoch.

    Args:
        path: The path of the field in a batch, such as "['id']", or "" for whole samples.
        expected: How many values there are without workers.
        missing: How many of these values don't arrive with workers.
        twice: How many of these values arrive more than once with workers.
    """

    path: str
    expected: int
    missing: int
    twice: int


def between_fields(evidence: Evidence) -> FieldDifference | None:
    """Return the difference in the first field that lacks values and repeats others, or None.

    A field counts if it has a different value in each sample, and the same values in two runs
    without workers, so the rest of a sample may be random. A field that may number the samples of
    each worker doesn't count (see `mixed`).
    """
    ours, plain, again = (
        {}
        if each is None or not (each.fields and each.finished[:1] == (True,))
        else dict(each.fields[0])
        for each in (evidence.run, evidence.alone, evidence.reseeded)
    )
    for path, values in ours.items():
        whole = plain.get(path, ())
        found = mixed(path, values, whole)
        if found is not None and Counter(whole) == Counter(again.get(path, ())):
            return found
    return None


def same_field(run: Measures | None, other: Measures | None, path: str) -> bool:
    """Return whether a field has the same values, equally often, in the first epoch of two runs.

    If a run is missing or didn't finish that epoch, return False.
    """
    values = [
        Counter(dict(each.fields[0]).get(path, ()))
        for each in (run, other)
        if each is not None and each.fields and each.finished[:1] == (True,)
    ]
    return len(values) == 2 and bool(values[0]) and values[0] == values[1]


def mixed(path: str, values: Sequence[str], whole: Sequence[str]) -> FieldDifference | None:
    """Return a FieldDifference if `values` lacks expected values and repeats others, or None.

    At least two have to be missing, and at least two have to repeat. Return None if the expected
    values aren't all different, or if any other value arrives. Also return None if a field may
    number the samples of each worker: if its values are the first few of the expected ones, or if
    all of them repeat. For whole samples, return None only if both are the case, because then
    the workers draw the same ones.

    Args:
        path: The path of the field that has these values, or "" for whole samples.
        values: The values that arrive with workers.
        whole: The expected values, which arrive without workers.
    """
    came, there = Counter(values), {*whole}
    if len(there) < len(whole) or not came.keys() <= there:
        return None
    twice = sum(count > 1 for count in came.values())
    missing = len(there) - len(came)
    first_few, all_twice = came.keys() == {*whole[: len(came)]}, twice == len(came)
    if min(twice, missing) < 2 or [bool(path), first_few, all_twice].count(True) > 1:
        return None
    return FieldDifference(path, len(whole), missing, twice)
