"""Pickle a dataset the way torch does for a spawned worker, and find what can't be pickled.

Leave out arrays and tensors, because they can be pickled and may be large. Count the tensors that
an object makes only for its pickle, because they are freed before a worker can open them.
"""

from __future__ import annotations

import copyreg
import gc
import io
import pickle
import pickletools
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from dltutor.diagnosis.limits import Limited
from dltutor.diagnosis.running.subject import Unanswered
from dltutor.observation import foreign
from dltutor.observation.foreign import first_line, is_a, module_of
from dltutor.tables import MB

_Ill = TypeVar("_Ill")

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
HEAVY: Final = 64 * MB  # bytes; don't unpickle a larger pickle
_MOST: Final = 200  # the most parts of one object to try one by one
_LONGEST: Final = 2.0  # the most seconds to pickle an object or take it apart


class _Weightless(ForkingPickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.storages: list[StorageWeakRef] = []

    def reducer_override(self, thing: Any) -> Any:
        if is_a(thing, torch.Tensor):
            with suppress(Exception):
                self.storages.append(StorageWeakRef(thing.untyped_storage()))
            return torch.Tensor, ()
        if is_a(thing, np.ndarray) and np.ndarray.view(thing, np.ndarray).dtype != object:
            return int, ()
        return NotImplemented


def pack(thing: Any, seconds: float = _LONGEST) -> tuple[bytes, int]:
    """Pickle an object without its arrays and tensors, and count tensors made only for the pickle.

    Args:
        thing: Any object.
        seconds: How many seconds pickling may take (default 2).

    Returns:
        The pickle, and how many tensors were freed once the pickle was written.

    Raises:
        Unanswered: Pickling takes longer than `seconds`.
        Exception: The object can't be pickled.
    """
    too_long = f"it holds so many objects that pickling takes over {seconds:.0f} s"
    file = Limited(Unanswered(too_long), seconds=seconds)
    pickler = _Weightless(file)
    pickler.dump(thing)
    storages = pickler.storages
    del pickler  # a pickler keeps alive everything that it has pickled
    if storages:
        gc.collect()
    return file.getvalue(), sum(each.expired() for each in storages)


def refused(path: str, thing: Any) -> list[tuple[str, str, str]]:
    """Return an object's smallest parts that can't be pickled, each as (path, class, error)."""
    return smallest(path, thing, _why_refused)


def _why_refused(thing: Any) -> str:
    try:
        pack(thing)
    except Unanswered:
        return ""
    except Exception as error:
        return first_line(error)
    return ""


def unreadable(path: str, thing: Any) -> list[tuple[str, str, str]]:
    """Return an object's smallest parts that can't be unpickled, each as (path, class, error).

    Leave out parts that only multiprocessing can pickle, because those can be unpickled only while
    a worker starts.
    """
    return smallest(path, thing, _why_unreadable)


def _why_unreadable(thing: Any) -> str:
    file = Limited(Unanswered(), size=HEAVY, seconds=_LONGEST)
    try:
        pickle.dump(thing, file)
    except Exception:
        return ""
    try:
        pickle.loads(file.getvalue())
    except Exception as error:
        return first_line(error)
    return ""


def fleeting(path: str, thing: Any) -> list[tuple[str, str]]:
    """Return the smallest parts whose pickle refers to a freed tensor, each as (path, class)."""
    return [(where, cls) for where, cls, _ in smallest(path, thing, _count_fleeting)]


def _count_fleeting(thing: Any) -> int:
    with suppress(Exception):
        return pack(thing)[1]
    return 0


def smallest(path: str, thing: Any, ill: Callable[[Any], _Ill]) -> list[tuple[str, str, _Ill]]:
    """Return the smallest parts of an object that have a problem.

    Args:
        path: The path of the object.
        thing: The object.
        ill: A function that takes an object and returns its problem, or something false.

    Returns:
        For each part, a tuple with its path, its class, and its problem.
    """
    until = time.monotonic() + _LONGEST

    def search(path: str, thing: Any, depth: int) -> list[tuple[str, str, _Ill]]:
        if not (what := ill(thing)):
            return []
        found = [
            each
            for name, part in _parts(path, thing, depth)
            if time.monotonic() < until
            for each in search(name, part, depth - 1)
        ]
        return found or [(path, _class(thing), what)]

    return search(path, thing, _DEEP)


def names_of_main(packed: bytes) -> list[str]:
    """Return the classes and functions of `__main__` that a pickle refers to by name."""
    strings: list[str] = []
    memo: list[str] = []  # a pickle has each string only once, and then refers to it by its number
    last = ""  # what was put on the stack last, if it's a string
    found: dict[str, None] = {}
    for code, argument, _ in pickletools.genops(packed):
        if code.name == "MEMOIZE":
            memo.append(last)
            continue
        if code.name == "GLOBAL" and str(argument).startswith("__main__ "):
            found[str(argument).partition(" ")[2]] = None
        elif code.name == "STACK_GLOBAL" and strings[-2:-1] == ["__main__"]:
            found[strings[-1]] = None
        last = ""
        if isinstance(argument, str):
            last = argument
        elif code.name in ("BINGET", "LONG_BINGET") and isinstance(argument, int):
            last = memo[argument] if argument < len(memo) else ""
        if last:
            strings.append(last)
    return list(found)


def _class(thing: Any) -> str:
    if is_a(thing, types.FunctionType):
        return "lambda" if thing.__name__ == "<lambda>" else f"function {thing.__name__}"
    return foreign.kind_of(thing)


def _parts(path: str, thing: Any, depth: int) -> Iterator[tuple[str, Any]]:
    # Yield the parts that go into an object's pickle. For most objects, those are the parts of what
    # `__reduce_ex__` returns.
    if depth == 0 or is_a(thing, (type, types.FunctionType, types.ModuleType, str, bytes)):
        return
    library = module_of(type(thing)).partition(".")[0]
    if library in _STANDARD and not is_a(thing, _TRANSPARENT):
        return  # an executor or a thread can't be pickled, whatever it holds
    if is_a(thing, (dict, list, tuple, set, frozenset)):
        inside = foreign.elements(thing)
        yield from _some((f"{path}[{foreign.text(key)}]", each) for key, each in inside)
    elif is_a(thing, types.MethodType):
        yield f"{path}.__self__", thing.__self__
    else:
        yield from _some(_state(path, thing))


def _state(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    reducer = copyreg.dispatch_table.get(type(thing))
    try:
        reduced = reducer(thing) if reducer else thing.__reduce_ex__(4)
    except Exception:  # the thing itself can't be pickled
        return
    if not is_a(reduced, tuple):
        return
    _, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    slots = None
    if is_a(state, tuple) and len(state) == 2 and is_a(state[1], dict):
        state, slots = state
    for each in (state, slots):
        if is_a(each, dict):
            yield from ((f"{path}.{name}", part) for name, part in foreign.elements(each))
        elif each is not None:
            yield f"{path} (its state)", each
    for at, each in enumerate(arguments or ()):
        if not is_a(each, (type, str, int)):
            yield f"{path}[{at}]" if is_a(thing, (list, tuple)) else path, each
    yield from ((f"{path}[{at}]", each) for at, each in enumerate(items or ()))
    yield from ((f"{path}[{foreign.text(key)}]", each) for key, each in pairs or ())


def _some(parts: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    with suppress(Exception):  # a reducer's iterators may raise
        yield from islice(parts, _MOST)
