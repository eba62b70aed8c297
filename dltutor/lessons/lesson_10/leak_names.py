"""Why the workers of an answer still grow: the usual wrong fixes, told by name."""

from __future__ import annotations

import functools
from typing import Any, Final

from dltutor.lessons.lesson_10.held_memory import names_in

_EACH: Final = 1.2  # MB in a recording


def why_it_grew(dataset: Any, grown: float, collections: int, samples: int) -> str:
    """A sentence for an answer whose workers grew.

    Args:
        dataset: The answer's.
        grown: MB that each worker grew by.
        collections: How many full garbage collections there were.
        samples: How many samples were loaded.
    """
    still = f"each worker still grew by {grown:.0f} MB in three epochs"
    kind = type(dataset)
    names = names_in(kind)
    if collections >= samples // 2:
        return (
            f"the garbage collector ran {collections} times for {samples} samples, and {still}. It "
            "frees what nobody refers to any more. Who refers to each recording?"
        )
    for function in _cached_functions(dataset):
        size = function.cache_parameters()["maxsize"]
        if size is None:
            return (
                f"`lru_cache(maxsize=None)` has no bound, and {still}. It is the same dict, "
                "written by somebody else."
            )
        return (
            f"`lru_cache` has a bound, `maxsize={size}`, and {still}. It counts entries, not "
            f"bytes: {size} recordings of {_EACH:g} MB are {size * _EACH:.0f} MB in each worker."
        )
    if any(isinstance(value, dict) for name, value in vars(kind).items() if name[:2] != "__"):
        return (
            f"one dict for the class instead of one for each object, and {still}. A worker is a "
            "process: it has a class of its own, too."
        )
    if "empty_cache" in names:
        return (
            f"`torch.cuda.empty_cache()` gives back what torch keeps in reserve on a GPU, and "
            f"{still}. Which memory is it that grows, and who keeps it?"
        )
    if "del" in names:
        return (
            f"`del` takes away a name, not what it stood for, and {still}. Where else does the "
            "recording have a name?"
        )
    return (
        f"{still}, and may grow by the size of 20 recordings. How many does it keep by then, and "
        "what bounds their number?"
    )


def _cached_functions(dataset: Any) -> list[Any]:
    kind = type(dataset)
    attributes = [*vars(kind).values(), *vars(dataset).values()]
    attributes += [value for name in names_in(kind) if (value := _global_of(kind, name))]
    return [each for each in attributes if isinstance(each, functools._lru_cache_wrapper)]


def _global_of(kind: type, name: str) -> Any:
    function = vars(kind).get("load") or vars(kind).get("__getitem__")
    return getattr(function, "__globals__", {}).get(name)
