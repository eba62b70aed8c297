"""Compare the fields of a batch with the fields of the samples that it was made from.

A collate function may leave out a field on purpose, or say in another field which samples the rows
belong to. These functions report neither.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dltutor.diagnosis.objects.digests import leaves, rows
from dltutor.observation import foreign
from dltutor.observation.foreign import elements, is_a

Collate = Callable[[list[Any]], Any]


def ragged(samples: list[Any], batch: Any) -> Iterator[tuple[str, int, int]]:
    """Yield fields that some samples lack, each as (field, rows in the batch, samples).

    In the batch, such a field has only the rows of the other samples. Leave out a field if another
    one says which samples the rows belong to.

    Args:
        samples: The samples, in the order in which the collate function got them.
        batch: The batch that the function returned. Fields are compared only if the batch and the
            samples are mappings.
    """
    came, held = _fields(batch), [_fields(each) for each in samples]
    if not all(is_a(each, Mapping) for each in (batch, *samples)):
        return
    for name, present in _partly(held):
        count = sum(present)
        if name in came and _length(came[name]) == count:
            others = [each for other, each in came.items() if other != name]
            at = np.flatnonzero(present)
            ends = np.cumsum(present)
            if not _says([*others, *_parts(batch)], present, at, ends, [0, *ends]) and not any(
                _length(each) == count and _same(each, [one[k] for k in at])
                for each in others
                for one in others
                if _length(one) == len(samples)
            ):
                yield name, count, len(samples)


def dropped(samples: list[Any], batch: Any, collate: Collate) -> Iterator[tuple[str, int, int]]:
    """Yield fields of some samples that a batch lacks, as (field, samples with it, samples).

    Leave out a field if the collate function drops it on purpose, which means that it drops the
    field even if the first sample has it or, for lists and tuples, even if all samples have it.

    Args:
        samples: The samples, in the order in which the collate function got them.
        batch: The batch that the function returned. Fields are compared only if the batch and the
            samples are all mappings, or all lists or tuples.
        collate: The collate function.
    """
    for kind in (Mapping, (list, tuple)):
        if not all(is_a(each, kind) for each in (batch, *samples)):
            continue
        came = _fields(batch)
        for name, present in _partly([_fields(each) for each in samples]):
            if name not in came and _kept(samples, present, name, collate):
                yield name, sum(present), len(samples)


def crossed(batches: list[Any], batch: Any) -> dict[str, str]:
    """Return the fields whose rows are in a different order than the rows of another field.

    A collate function may sort the samples, but then it has to sort all their fields. Leave out a
    field if the batch also has its rows in the right order, or says what the order is.

    Args:
        batches: For each sample, a batch of only this sample.
        batch: The batch of all samples.

    Returns:
        A dict from each such field to the other field.
    """
    alone = [dict(leaves(each)) for each in batches]
    order: list[int] = []
    named, found = "", {}
    given: dict[str, list[Any]] = {}
    for name, leaf in leaves(batch):
        if rows(leaf) != len(alone) or any(rows(each.get(name)) != 1 for each in alone):
            continue
        given[name] = [each[name][0] for each in alone]
        whose = [
            [at for at, one in enumerate(given[name]) if _begins(leaf[row], one)]
            for row in range(len(alone))
        ]
        if not named and all(len(each) == 1 for each in whose):
            named, order = name, [each[0] for each in whose]
        elif (
            named
            and all(whose)
            and any(at not in each for at, each in zip(order, whose, strict=True))
        ):
            orders = [each for each in (order, [each[0] for each in whose]) if each != sorted(each)]
            if not _says(_parts(batch), *orders, *map(np.argsort, orders)):
                found[name] = named
    right = [each for name, each in given.items() if name not in found]
    return {
        name: other
        for name, other in found.items()
        if not any(all(map(_same, each, given[name])) for each in right)
    }


def _fields(thing: Any) -> dict[str, Any]:
    named = is_a(thing, Mapping)
    if not named and not is_a(thing, (list, tuple)):
        return {}
    return {str(name) if named else f"[{name}]": each for name, each in elements(thing)}


def _partly(held: list[dict[str, Any]]) -> Iterator[tuple[str, list[bool]]]:
    # Yield the fields that only some samples have, and for each sample whether it has the field.
    for name in dict.fromkeys(name for each in held for name in each):
        present = [name in each for each in held]
        if not all(present):
            yield name, present


def _kept(samples: list[Any], present: list[bool], name: str, collate: Collate) -> bool:
    # Return whether the batch has the field if a sample that has it is the first one or, for lists
    # and tuples, if all samples have it. A function that picks its fields drops it even then.
    have = [each for each, has in zip(samples, present, strict=True) if has]
    lack = [each for each, has in zip(samples, present, strict=True) if not has]
    batch = [*have, *lack] if is_a(have[0], Mapping) else have[:1] * len(samples)
    try:
        return name in _fields(collate(copy.deepcopy(batch)))
    except KeyError as error:  # the function looks for a field of the first sample in all of them
        return name in map(str, error.args)
    except Exception:
        return False


def _length(thing: Any) -> int | None:
    return foreign.length(thing) if is_a(thing, list) else rows(thing)


def _parts(batch: Any) -> list[Any]:
    return [*_fields(batch).values(), *(leaf for _, leaf in leaves(batch))]


def _says(parts: Sequence[Any], *told: Any) -> bool:
    return any(_same(part, each) for part in parts for each in told)


def _same(part: Any, other: Any) -> bool:
    with suppress(Exception):  # not every part can become a numpy array
        return bool(np.array_equal(np.ravel(np.asarray(part)), np.ravel(np.asarray(other))))
    return False


def _begins(row: Any, alone: Any) -> bool:
    # Compare only the beginning of a row, because the collate function may have padded it.
    one, other = (np.asarray(each) for each in (row, alone))
    if one.ndim != other.ndim or any(a < b for a, b in zip(one.shape, other.shape, strict=True)):
        return False
    return bool(np.array_equal(one[tuple(slice(each) for each in other.shape)], other))
