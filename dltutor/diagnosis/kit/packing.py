"""Pickles a dataset as for a worker that is not forked, and finds what cannot be pickled.

Arrays and tensors are left out: they can be sent, and may be large. A tensor that is made for the
pickle alone is noticed.
"""

from __future__ import annotations

import copyreg
import gc
import io
import pickletools
import sys
import types
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

_DEEP: Final = 6
_STANDARD: Final = sys.stdlib_module_names - {"__main__", "builtins"}
_TRANSPARENT: Final = (
    dict,
    list,
    tuple,
    set,
    frozenset,
    types.MethodType,
    types.SimpleNamespace,
    deque,
    partial,
)
_MOST: Final = 200  # parts of one thing that are tried one by one


class _Weightless(ForkingPickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.storages: list[StorageWeakRef] = []

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, torch.Tensor):
            with suppress(Exception):
                self.storages.append(StorageWeakRef(thing.untyped_storage()))
            return torch.Tensor, ()
        if isinstance(thing, np.ndarray) and thing.dtype != object:
            return int, ()
        return NotImplemented


def pack(thing: Any) -> tuple[bytes, int]:
    """The pickle of a thing without its arrays, and how many tensors were made for it alone.

    Raises:
        Exception: It cannot be pickled.
    """
    file = io.BytesIO()
    pickler = _Weightless(file)
    pickler.dump(thing)
    storages = pickler.storages
    del pickler  # it keeps all that it has seen
    gc.collect()
    return file.getvalue(), sum(each.expired() for each in storages)


def refused(path: str, thing: Any, depth: int = _DEEP) -> list[tuple[str, str, str]]:
    """The smallest parts of a thing that cannot be pickled: [path, class, error]."""
    try:
        pack(thing)
    except Exception as error:
        found = [
            each
            for name, part in _parts(path, thing, depth)
            for each in refused(name, part, depth - 1)
        ]
        text = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        return found or [(path, _class(thing), text)]
    return []


def fleeting(path: str, thing: Any, depth: int = _DEEP) -> list[tuple[str, str]]:
    """The smallest parts whose pickle holds a tensor that is gone by then: [path, class]."""
    with suppress(Exception):
        if pack(thing)[1]:
            found = [
                each
                for name, part in _parts(path, thing, depth)
                for each in fleeting(name, part, depth - 1)
            ]
            return found or [(path, _class(thing))]
    return []


def names_of_main(packed: bytes) -> list[str]:
    """The classes and functions of `__main__` that a pickle refers to by name."""
    strings: list[str] = []
    found: dict[str, None] = {}
    for code, argument, _ in pickletools.genops(packed):
        if code.name == "GLOBAL" and str(argument).startswith("__main__ "):
            found[str(argument).partition(" ")[2]] = None
        elif code.name == "STACK_GLOBAL" and strings[-2:-1] == ["__main__"]:
            found[strings[-1]] = None
        elif isinstance(argument, str):
            strings.append(argument)
    return list(found)


def _class(thing: Any) -> str:
    if isinstance(thing, types.FunctionType):
        return "lambda" if thing.__name__ == "<lambda>" else f"function {thing.__name__}"
    return type(thing).__name__


def _parts(path: str, thing: Any, depth: int) -> Iterator[tuple[str, Any]]:
    # What pickle would put into the pickle of a thing: of an object its reduced state.
    if depth == 0 or isinstance(thing, (type, types.FunctionType, types.ModuleType, str, bytes)):
        return
    library = type(thing).__module__.partition(".")[0]
    if library in _STANDARD and not isinstance(thing, _TRANSPARENT):
        return  # of an executor or a thread, that itself is what cannot be pickled
    if isinstance(thing, dict):
        yield from _some((f"{path}[{key!r}]", each) for key, each in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from _some((f"{path}[{at}]", each) for at, each in enumerate(thing))
    elif isinstance(thing, types.MethodType):
        yield f"{path}.__self__", thing.__self__
    else:
        yield from _some(_state(path, thing))


def _state(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    reducer = copyreg.dispatch_table.get(type(thing))
    try:
        reduced = reducer(thing) if reducer else thing.__reduce_ex__(4)
    except Exception:  # this is the thing itself that cannot
        return
    if not isinstance(reduced, tuple):
        return
    _, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    slots = None
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        state, slots = state
    for each in (state, slots):
        if isinstance(each, dict):
            yield from ((f"{path}.{name}", part) for name, part in each.items())
        elif each is not None:
            yield f"{path} (its state)", each
    for at, each in enumerate(arguments or ()):
        if not isinstance(each, (type, str, int)):
            yield f"{path}[{at}]" if isinstance(thing, (list, tuple)) else path, each
    yield from ((f"{path}[{at}]", each) for at, each in enumerate(items or ()))
    yield from ((f"{path}[{key!r}]", each) for key, each in pairs or ())


def _some(parts: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    return (part for part, _ in zip(parts, range(_MOST), strict=False))
