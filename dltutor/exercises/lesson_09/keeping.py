"""How a dataset keeps its data: what its attributes are made of, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_OBJECTS = "What does a worker write when it reads one?"


def python_objects_in(dataset: Any) -> str:
    """Name the attribute that holds most of a dataset's Python objects, and what they are.

    Returns:
        A sentence or two; empty where no attribute holds as many objects as there are samples.
    """
    enough = len(dataset) // 2
    for name, value in sorted(vars(dataset).items(), key=lambda item: _parts(item[1]) * -1):
        if _parts(value) >= enough and (what := _what(value)):
            return f"`{name}` is {what}. {_OBJECTS}"
    return ""


def array_bytes(dataset: Any) -> int:
    """Bytes of all arrays and tensors that are attributes of a dataset."""
    return sum(
        value.nbytes
        for value in vars(dataset).values()
        if isinstance(value, (np.ndarray, torch.Tensor))
    )


def cached_method(cls: type) -> str:
    """The name of a method that keeps what it returned (`lru_cache`), or nothing."""
    return next((name for name, value in vars(cls).items() if hasattr(value, "cache_clear")), "")


def _parts(value: Any) -> int:
    if _is_pandas(value) or isinstance(value, (list, tuple, dict, set, frozenset)):
        return len(value)
    return int(value.size) if isinstance(value, np.ndarray) and value.dtype == object else 0


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
