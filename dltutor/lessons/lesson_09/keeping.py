"""How a dataset keeps its data: what its attributes are made of, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_OBJECTS = "What does a worker write when it reads one?"


@dataclass(frozen=True)
class Kept:
    """An attribute that holds about as many Python objects as there are samples, or more.

    Args:
        name: The attribute.
        what: What it is, such as "a list of 100 str objects".
    """

    name: str
    what: str

    def __str__(self) -> str:
        return f"`{self.name}` is {self.what}. {_OBJECTS}"


def python_objects_in(dataset: Any) -> tuple[Kept, ...]:
    """The attributes of a dataset that hold its Python objects, the largest first."""
    enough = len(dataset) // 2
    items = sorted(_attributes(dataset).items(), key=lambda item: _parts(item[1]) * -1)
    return tuple(
        Kept(name, _what(value))
        for name, value in items
        if _parts(value) >= enough and _different(value) >= enough
    )


@contextmanager
def emptied(dataset: Any, name: str) -> Iterator[None]:
    """Have an attribute hold None in each of its places while the block runs."""
    held = _attributes(dataset)
    value = held[name]
    held[name] = _hollow(value)
    try:
        yield
    finally:
        held[name] = value


def array_bytes(dataset: Any) -> int:
    """Bytes of all arrays and tensors that are attributes of a dataset."""
    return sum(
        value.nbytes
        for value in _attributes(dataset).values()
        if isinstance(value, (np.ndarray, torch.Tensor))
    )


def cached_method(cls: type) -> str:
    """The name of a method that keeps what it returned (`lru_cache`), or nothing."""
    return next((name for name, value in vars(cls).items() if hasattr(value, "cache_clear")), "")


def _attributes(dataset: Any) -> dict[str, Any]:
    return getattr(dataset, "__dict__", {})  # a class with slots has none


def _parts(value: Any) -> int:
    if _is_pandas(value) or isinstance(value, (list, tuple, dict, set, frozenset)):
        return len(value)
    return int(value.size) if isinstance(value, np.ndarray) and value.dtype == object else 0


def _different(value: Any) -> int:
    # A list of the numbers 0 to 5 holds six objects, however long it is.
    if _is_pandas(value):
        return _parts(value)
    held = value.flat if isinstance(value, np.ndarray) else value
    return len({id(each) for each in (held.values() if isinstance(held, dict) else held)})


def _hollow(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value)
    if isinstance(value, np.ndarray):
        return np.full(value.shape, None)
    if isinstance(value, tuple):
        return (None,) * len(value)
    return [None] * len(value) if isinstance(value, list) else None


def _what(value: Any) -> str:
    count = _parts(value)
    if isinstance(value, np.ndarray):
        return (
            f"a numpy array of dtype `object`: {count} pointers to {count} Python objects, which "
            "lie elsewhere"
        )
    if _is_pandas(value):
        return f"a pandas {type(value).__name__} of {count} rows, and its texts are Python objects"
    kind = type(value).__name__
    if isinstance(value, dict):
        return f"a dict of {count} keys and as many values, all of them Python objects"
    first = next(iter(value))
    inside = f"{type(first).__name__} objects"
    if isinstance(first, np.ndarray):
        inside = "numpy arrays. An array is a Python object around its numbers"
    if isinstance(first, torch.Tensor):
        inside = "tensors. A tensor is a Python object around its numbers"
    return f"a {kind} of {count} {inside}"


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas"
