"""What a sample or a batch holds, as a short text that is the same for the same content."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch

_DEEP: Final = 12  # levels of nesting
_MOST: Final = 5_000  # leaves of one thing


def digest(thing: Any) -> str:
    """The content of anything, in 16 letters."""
    content = hashlib.blake2b(digest_size=8)
    _feed(content, thing, _DEEP)
    return content.hexdigest()


def leaves(thing: Any, path: str = "", depth: int = _DEEP) -> Iterator[tuple[str, Any]]:
    """What stands at the ends of lists, tuples, dicts and dataclasses, with the way there."""
    parts = None if depth == 0 else parts_of(thing)
    if parts is None:
        yield path, thing
        return
    for name, part in parts:
        yield from leaves(part, f"{path}[{name!r}]", depth - 1)


def parts_of(thing: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a collection, by key or position; None for anything that is whole."""
    if isinstance(thing, Mapping):
        return list(thing.items())[:_MOST]
    if isinstance(thing, (list, tuple)):
        return list(enumerate(thing[:_MOST]))
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return list(vars(thing).items()) if hasattr(thing, "__dict__") else None
    if _attributes_hold_data(thing):
        return list(vars(thing).items())
    return None


def shape(thing: Any) -> str:
    """What kinds of things a sample holds, and of what shapes."""
    said = []
    for path, leaf in leaves(thing):
        size = getattr(leaf, "shape", None)
        kind = type(leaf).__name__
        said.append(f"{path} {kind}{list(size) if isinstance(size, tuple) else ''}".strip())
    return "; ".join(said[:6])


def split(batch: Any, count: int) -> list[str] | None:
    """The digest of each sample of a batch; None where it cannot be taken apart.

    Args:
        batch: As the loader delivers it.
        count: How many samples are in it.
    """
    found = [leaf for _, leaf in leaves(batch)]
    rows = [each for each in found if _rows(each) == count]
    if rows and len(rows) == len(found):
        return [digest([each[row] for each in rows]) for row in range(count)]
    if isinstance(batch, list) and len(batch) == count:
        return [digest(each) for each in batch]
    return None


def _rows(leaf: Any) -> int:
    size = getattr(leaf, "shape", None)
    return int(size[0]) if isinstance(size, tuple) and size else -1


def _attributes_hold_data(thing: Any) -> bool:
    # A batch class of a library or of one's own, such as torch_geometric's.
    if isinstance(thing, (torch.Tensor, np.ndarray, np.generic, str, bytes, int, float, type)):
        return False
    held: dict[str, Any] = getattr(thing, "__dict__", {})
    return any(
        isinstance(each, (torch.Tensor, np.ndarray, Mapping, list)) for each in held.values()
    )


def _feed(content: Any, thing: Any, depth: int) -> None:
    if isinstance(thing, torch.Tensor):
        _feed_tensor(content, thing)
    elif isinstance(thing, np.ndarray) and thing.dtype != object:
        content.update(f"{thing.dtype}{thing.shape}".encode())
        content.update(np.ascontiguousarray(thing).data)
    elif depth > 0 and (parts := parts_of(thing)) is not None:
        content.update(f"{type(thing).__name__}{len(parts)}".encode())
        for name, part in parts:
            content.update(str(name).encode(errors="replace"))
            _feed(content, part, depth - 1)
    elif isinstance(thing, (str, bytes, int, float, bool, np.generic, type(None))):
        content.update(f"{type(thing).__name__} {thing!r}".encode(errors="replace"))
    elif hasattr(thing, "tobytes"):  # PIL's images
        content.update(thing.tobytes())
    else:
        try:
            content.update(pickle.dumps(thing))
        except Exception:  # what cannot be pickled has no content that could be compared
            content.update(type(thing).__name__.encode())


def _feed_tensor(content: Any, tensor: torch.Tensor) -> None:
    content.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    try:
        plain = tensor.detach().to_dense().cpu().contiguous().reshape(-1)
        content.update(plain.view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError, NotImplementedError):  # nested, quantized, of length 0
        content.update(repr(tensor).encode())
