"""Compare the fields of a batch with the fields of the samples that it was made from.

A collate function may leave out a field on purpose, or say in another field which samples the rows
belong to. These functions report neither.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.objects.digests import digest, leaves, parts_of, rows
from dltutor.observation import foreign
from dltutor.observation.foreign import elements, is_a

Collate = Callable[[list[Any]], Any]
Narrowed = tuple[str, str, str, int, int, int, int]

_FIELDS: Final = 256  # the most fields of the samples in which to look for changed integers
_TRIES: Final = 3  # the most candidates to test, because each test makes the batch twice
_SOME: Final = 4_096  # the most numbers to take from one sample's field
_MANY: Final = 2_000_000  # skip a part of a sample or batch that has more numbers than this
_FLOATS: Final = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


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


def narrowed(samples: list[Any], batch: Any, remake: Callable[[Any], Any]) -> Iterator[Narrowed]:
    """Yield integer fields that arrive as integers, but changed as if a float dtype had held them.

    To be sure, make the batch again from samples with the changed numbers, and from samples with
    halved ones. The field's part of the batch must stay the same with the changed numbers, but not
    with the halved ones.

    Args:
        samples: The samples of the batch.
        batch: The batch that the collate function made from them.
        remake: A function that takes a function, calls it with each sample, and makes the batch
            again from the results.

    Returns:
        For each field: its path in a sample and in the batch, the dtype, one number in a sample and
        in the batch, how many different numbers changed, and of how many.
    """
    parts = dict(leaves(batch))
    for found in islice(_narrower(samples, parts), _TRIES):
        field, path, kind, *_ = found
        changes = (partial(_held_as, getattr(torch, kind)), lambda numbers: numbers // 2)
        again, halved = (remake(partial(_with, field=field, change=each)) for each in changes)
        same, other = (digest(dict(leaves(each)).get(path)) for each in (again, halved))
        if digest(parts[path]) == same != other:
            yield found


def _narrower(samples: list[Any], batch: dict[str, Any]) -> Iterator[Narrowed]:
    # Yield integer fields whose numbers a float dtype would change, if a part of the batch has all
    # the changed numbers.
    came = {path: each for path, leaf in batch.items() for each in _integers(leaf)}
    held = [dict(leaves(each)) for each in samples]
    for field in islice(dict.fromkeys(path for each in held for path in each), _FIELDS):
        found = [[*_integers(each[field])] for each in held if field in each]
        if not all(found):
            continue
        before = np.unique(np.concatenate([each.ravel()[:_SOME] for each, *_ in found]))
        if before.dtype.kind == "f" or before[-1] > np.iinfo(np.int64).max:
            continue  # some unsigned 64-bit numbers don't fit in an int64
        before = before.astype(np.int64)
        for kind in _FLOATS:
            after, name = _held_as(kind, before), str(kind).split(".")[-1]
            new = after != before
            for path, leaf in came.items() if new.any() else ():
                if np.isin(after, leaf).all():
                    one, other = int(before[new][0]), int(after[new][0])
                    yield field, path, name, one, other, int(new.sum()), len(before)


def _integers(leaf: Any) -> Iterator[Any]:
    with suppress(Exception):  # not every tensor can become a numpy array
        if is_a(leaf, (int, np.generic, np.ndarray, torch.Tensor)):
            array = np.asarray(leaf)
            if array.dtype.kind in "iu" and 0 < array.size <= _MANY:
                yield array


def _held_as(kind: torch.dtype, numbers: Any) -> Any:
    return torch.as_tensor(numbers).to(kind).to(torch.int64).numpy()


def _with(thing: Any, field: str, change: Callable[[Any], Any], path: str = "") -> Any:
    # Return a copy of a sample with other numbers in a field.
    if path == field:
        numbers = np.asarray(thing)
        changed = np.asarray(change(numbers.astype(np.int64))).astype(numbers.dtype)
        if is_a(thing, torch.Tensor):
            return torch.as_tensor(changed)
        return changed if is_a(thing, np.ndarray) else type(thing)(changed)
    copied = list(thing) if is_a(thing, tuple) else copy.copy(thing)
    for name, part in parts_of(thing) or ():
        if field.startswith(inside := f"{path}[{foreign.text(name)}]"):
            put = operator.setitem if is_a(copied, (Mapping, list)) else object.__setattr__
            put(copied, name, _with(part, field, change, inside))
    make = foreign.attribute(type(thing), "_make", type(thing))  # named tuples take no list
    return make(copied) if is_a(thing, tuple) else copied


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
