"""Compute digests, which are short strings that are equal for equal samples or batches.

Other functions in this module take samples and batches apart, and measure the parts.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.limits import Limited
from dltutor.observation import foreign
from dltutor.observation.foreign import attribute, attributes_of, is_a, slots_of
from dltutor.tables import MB

_DEEP: Final = 12  # the most levels of nesting to follow
_MOST: Final = 5_000  # the most elements of one collection to follow
_LEAVES: Final = 500_000  # the most parts to hash in one object
_PICKLED: Final = 16 * MB  # after this many bytes, leave out the rest of a pickle


def digest(thing: Any) -> str:
    """Return a digest of any object's content, as 16 hexadecimal digits.

    In a large object, not everything counts: the digest covers the first 5,000 elements of each
    collection, 500,000 parts in all, and the first 16 MB of a part that has to be pickled. If a
    part can't be read or pickled, the name of its class counts instead.
    """
    content = _Content()
    content.feed(thing, _DEEP)
    return content.hash.hexdigest()


def leaves(thing: Any, path: str = "", depth: int = _DEEP) -> Iterator[tuple[str, Any]]:
    """Yield the innermost parts of a nested collection, each as (path, part).

    Args:
        thing: The collection. Anything that isn't one is its own innermost part.
        path: The string that every path begins with.
        depth: The most levels of nesting to follow.
    """
    parts = None if depth == 0 else parts_of(thing)
    if parts is None:
        yield path, thing
        return
    for name, part in parts:
        yield from leaves(part, f"{path}[{foreign.text(name)}]", depth - 1)


def parts_of(thing: Any) -> list[tuple[Any, Any]] | None:
    """Return the first 5,000 parts of a mapping, list, or tuple, each as (key or position, part).

    For a dataclass, or an object with a tensor, array, mapping, or list as an attribute, return all
    attributes, each as (name, value). For anything else, or if there are none, return None.
    """
    if is_a(thing, (Mapping, list, tuple)):
        return list(islice(foreign.elements(thing), _MOST))
    if foreign.has(type(thing), "__dataclass_fields__") or _attributes_hold_data(thing):
        return list(_attributes(thing).items()) or None
    return None


def shape(thing: Any) -> str:
    """Describe a sample's first six parts, such as "[0] Tensor[3, 32, 32]; [1] int"."""
    said = []
    for path, leaf in leaves(thing):
        size = attribute(leaf, "shape")
        kind = foreign.kind_of(leaf)
        said.append(f"{path} {kind}{list(size) if is_a(size, tuple) else ''}".strip())
    return "; ".join(said[:6])


def split(batch: Any, count: int) -> list[str] | None:
    """Return the digest of each sample in a batch, or None if the batch can't be taken apart.

    Args:
        batch: A batch from the loader.
        count: The number of samples in the batch.
    """
    if fields := split_fields(batch, count):
        return joined(fields)
    if is_a(batch, list) and foreign.length(batch) == count:
        return [digest(each) for _, each in foreign.elements(batch)]
    return None


def split_fields(batch: Any, count: int) -> dict[str, list[str]]:
    """Return a digest of each row in each field of a batch. A row is one sample's part.

    Args:
        batch: A batch from the loader.
        count: The number of samples in the batch.

    Returns:
        The digests of the rows, by the path of the tensor, array, or list of strings. Empty if the
        batch holds anything else, or if one of these doesn't have `count` rows.
    """
    found = {}
    for path, column in _columns(batch, count):
        if column is None:
            return {}
        found[path] = column
    return {path: _rows(column) for path, column in found.items()}


def row_shapes(batch: Any, count: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of a row in each tensor or array of a batch, by path.

    Leave out a tensor or array that doesn't have one row per sample.

    Args:
        batch: A batch from the loader.
        count: The number of samples in the batch.
    """
    return {
        path: tuple(attribute(column, "shape")[1:])
        for path, column in _columns(batch, count)
        if column is not None and rows(column) == count
    }


def joined(fields: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a digest of each sample, made from the digests that `split_fields` returned."""
    return [_short("".join(each).encode()) for each in zip(*fields.values(), strict=True)]


def size(thing: Any) -> int:
    """Return about how many bytes an object holds, counting 8 for a part of unknown size."""
    total = 0
    for _, leaf in leaves(thing):
        if is_a(leaf, (str, bytes)):
            total += len(leaf)
        elif is_a(held := attribute(leaf, "nbytes", 8), int):
            total += held
    return total


def rows(leaf: Any) -> int:
    """Return the length of a tensor's or array's first dimension, or -1 for anything else."""
    size = attribute(leaf, "shape")
    return size[0] if is_a(size, tuple) and size and is_a(size[0], int) else -1


def _columns(
    thing: Any, count: int, path: str = "", depth: int = _DEEP
) -> Iterator[tuple[str, Any]]:
    # Yield (path, part) for each innermost part, but (path, None) if the part doesn't have one row
    # per sample. A list with one string per sample counts as one part.
    if _are_strings(thing) and foreign.length(thing) == count:
        yield path, thing
    elif depth == 0 or (parts := parts_of(thing)) is None:
        yield path, thing if rows(thing) == count else None
    else:
        for name, part in parts:
            yield from _columns(part, count, f"{path}[{foreign.text(name)}]", depth - 1)


def _are_strings(thing: Any) -> bool:
    return is_a(thing, list) and all(is_a(each, str) for _, each in foreign.elements(thing))


def _rows(leaf: Any) -> list[str]:
    # Return a digest of each row. Hash the rows of one numpy array if possible, because calling
    # `digest` for each row is slower, and the loop has to wait for that.
    if is_a(leaf, list):
        return [digest(row) for row in leaf]
    with suppress(Exception):  # not every tensor can become a numpy array
        array = np.asarray(leaf.detach() if is_a(leaf, torch.Tensor) else leaf)
        if array.dtype != object:
            kind = f"{array.dtype}{array.shape[1:]}".encode()
            return [_short(kind, np.ascontiguousarray(row).tobytes()) for row in array]
    return [digest(row) for row in leaf]


def _short(*parts: bytes) -> str:
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()


def _attributes(thing: Any) -> dict[str, Any]:
    return slots_of(thing) | attributes_of(thing)


def _attributes_hold_data(thing: Any) -> bool:
    # A custom batch class, such as torch_geometric's, holds its data in attributes.
    if is_a(thing, (torch.Tensor, np.ndarray, np.generic, str, bytes, int, float, type)):
        return False
    held = _attributes(thing).values()
    return any(is_a(each, (torch.Tensor, np.ndarray, Mapping, list)) for each in held)


class _Content:
    """A hash to which `feed` adds an object's parts, up to `_LEAVES` of them."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=8)
        self.left = _LEAVES

    def feed(self, thing: Any, depth: int) -> None:
        """Add an object with its parts to the hash, or the name of its class if that fails."""
        self.left -= 1
        if self.left < 0:
            return
        try:
            self._feed(thing, depth)
        except Exception:
            self.hash.update(foreign.kind_of(thing).encode())

    def _feed(self, thing: Any, depth: int) -> None:
        content = self.hash
        if is_a(thing, (str, bytes, int, float, np.generic, type(None))):
            content.update(f"{foreign.kind_of(thing)} {thing!r}".encode(errors="replace"))
        elif is_a(thing, torch.Tensor):
            _feed_tensor(content, thing)
        elif is_a(thing, np.ndarray) and thing.dtype != object:
            content.update(f"{thing.dtype}{thing.shape}".encode())
            content.update(np.ascontiguousarray(thing).data)
        elif depth > 0 and (parts := parts_of(thing)) is not None:
            content.update(f"{foreign.kind_of(thing)}{len(parts)}".encode())
            for name, part in parts:
                content.update(foreign.text(name).encode(errors="replace"))
                self.feed(part, depth - 1)
        elif foreign.has(thing, "tobytes"):  # such as a PIL image
            content.update(thing.tobytes())
        else:  # if pickling fails, `feed` hashes the name of the class
            content.update(_pickled(thing))


def _pickled(thing: Any) -> bytes:
    """Return an object's pickle, or only the beginning of a pickle that's large."""
    file = Limited(_Enough(), size=_PICKLED)
    with suppress(_Enough):
        pickle.dump(thing, file)
    return file.getvalue()


class _Enough(Exception):
    """Raised to end a pickle that's too long."""


def _feed_tensor(content: Any, tensor: torch.Tensor) -> None:
    content.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    try:
        plain = tensor.detach().to_dense().cpu().contiguous().reshape(-1)
        content.update(plain.view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError, NotImplementedError):  # for a nested tensor, for example
        content.update(repr(tensor).encode())
