"""Measure what a sampler deals out, and how long it takes, without drawing samples."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from inspect import isgeneratorfunction
from itertools import chain, islice
from typing import Any, Final

from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import Pins
from dltutor.diagnosis.running.subject import Subject, length_of

_QUICKLY: Final = 0.3  # seconds for an epoch; don't count the batches of a slower sampler
_PARTS: Final = 64  # the most epochs in which to look for all indices
_LEAST: Final = 8  # indices; smaller parts of the data may differ by chance
_MOST: Final = 10_000  # the most batches to take from the sampler in one epoch

Counts = tuple[tuple[int, int], ...]


def count_epochs(subject: Subject) -> tuple[Counts, tuple[int, ...]]:
    """Count the batches that the sampler deals out in two epochs, and the indices it leaves out.

    Count in a fork, because a sampler that uses itself up would have nothing left for a run.

    Returns:
        Two tuples. The first one has a pair for each of the two epochs: how many batches the
        loader's `len()` promises (-1 if it raises), and how many the sampler deals out. This tuple
        is empty if counting failed or there wasn't time for two epochs. The second tuple says how
        many indices the first epoch leaves out, how many the second one does, and how many indices
        the largest batch has. This tuple is empty if both epochs leave out the same indices, or if
        that isn't known.
    """
    return forks.attempt(partial(_two_epochs, subject), 4 * _QUICKLY) or ((), ())


def seconds_between_batches(subject: Subject, most: int) -> float:
    """Return how many seconds the sampler takes from one batch to the next, on average.

    Stop after 0.6 s. If there are fewer than three batches by then, return 0.

    Args:
        subject: The loader.
        most: The most batches to ask the sampler for.
    """
    dealt = in_time(islice(subject.dealer, most), 2 * _QUICKLY)
    moments = [time.monotonic() for _ in dealt]
    return (moments[-1] - moments[0]) / (len(moments) - 1) if len(moments) > 2 else 0.0


def lost_if_begun_twice(subject: Subject) -> tuple[int, int, int]:
    """Compare the sampler's first epoch with its first epoch after an iterator that nothing uses.

    torch makes such an iterator when a loader starts workers. Each epoch gets the same random
    numbers, so only the sampler's other state can make a difference. A difference counts only if
    the epoch after the unused iterator is the same as the second epoch. Also, the epochs must each
    deal out another part of the data, so that the first part is lost, or the second epoch must have
    all indices of the first, and more additional ones than the largest batch has.

    Returns:
        How many indices the first epoch has, how many it has after an unused iterator, and how many
        are in both. If there's no difference that counts, return zeros.
    """
    if isgeneratorfunction(type(subject.dealer).__iter__):
        return 0, 0, 0  # a generator function runs none of its code until its iterator is used
    found = forks.attempt(partial(_parts, subject), 2.0)
    begun = forks.attempt(partial(_after_unused, subject), 2.0)
    if not found or not begun:
        return 0, 0, 0
    (first, *others), rest, largest = found
    if first == begun or begun != (others or [rest])[0]:
        return 0, 0, 0
    in_parts = (
        bool(others) and _never_dealt(subject.dataset, [*first.union(rest, *others)]) == set()
    )
    lost = in_parts and min(len(first), len(begun)) >= _LEAST
    if not lost and not (first < begun and len(begun) - len(first) > largest):
        return 0, 0, 0
    return len(first), len(begun), len(first & begun)


def _parts(subject: Subject) -> tuple[list[set[Any]], set[Any], int] | None:
    # Take up to 64 epochs, until one is empty or shares an index with an earlier one. Return the
    # indices of each epoch before the last one, the last one's indices (none after 64 epochs), and
    # the size of the largest batch. Return None if the first epoch is empty.
    pins = Pins(subject.dealer)
    parts: list[set[Any]] = []
    largest = 0
    while len(parts) < _PARTS:
        batches = _dealt(subject, pins)
        epoch = {*chain.from_iterable(batches)}
        largest = max([largest, *map(len, batches)])
        if (parts and not epoch.isdisjoint(set().union(*parts))) or not epoch:
            return (parts, epoch, largest) if parts else None
        parts.append(epoch)
    return parts, set(), largest


def _after_unused(subject: Subject) -> set[Any]:
    pins = Pins(subject.dealer)
    with pins.held():
        iter(subject.dealer)
    return {*chain.from_iterable(_dealt(subject, pins))}


def _dealt(subject: Subject, pins: Pins) -> list[list[Any]]:
    with pins.held():
        return [subject.indices_in(each) for each in islice(subject.dealer, _MOST)]


def _two_epochs(subject: Subject) -> tuple[Counts, tuple[int, ...]]:
    # Return what `count_epochs` returns, with both tuples empty if there's no time for two epochs.
    counts, never, largest = [], [], 1
    until = time.monotonic() + 2 * _QUICKLY
    for _ in range(2):
        said, batches = length_of(subject.inner), []
        for batch in subject.dealer:
            batches.append(subject.indices_in(batch))
            if time.monotonic() > until:
                return (), ()
        counts.append((-1 if said is None else said, len(batches)))
        largest = max(largest, *map(len, batches), 1)
        never.append(_never_dealt(subject.dataset, list(chain.from_iterable(batches))))
    first, second = never
    if first is None or second is None or first == second:
        return tuple(counts), ()
    return tuple(counts), (len(first), len(second), largest)


def _never_dealt(dataset: Any, indices: list[Any]) -> set[int] | None:
    # Return the indices that the sampler leaves out, or None if it deals out an index twice or one
    # that isn't a position in the dataset, or if the dataset has no length.
    with suppress(Exception):
        every = set(range(len(dataset)))
        if len(indices) == len({*indices}) and every.issuperset(indices):
            return every.difference(indices)
    return None
