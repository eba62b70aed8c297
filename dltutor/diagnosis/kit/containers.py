"""The containers in reach of a dataset: their sizes, and the pages that their elements lie on."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from dltutor.diagnosis.kit.walking import Found, attributes, cells, elements, search

_MANY: Final = 2000  # elements from which on a container is large
_FOLLOWED: Final = 2000  # elements of a large container whose pages are looked at
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PLAIN: Final = (str, bytes, int, float, complex, type(None), np.generic)


def size(thing: Any) -> int | None:
    """How many elements a container has that can grow; None for anything else."""
    if isinstance(thing, (list, dict, set, deque, bytearray)):
        return len(thing)
    if _caches(thing):
        with suppress(Exception):
            return int(thing.cache_info().currsize)
    return None


def bound(thing: Any) -> int | None:
    """How many elements a container says it will hold at most; None where it does not say."""
    if isinstance(thing, deque):
        return thing.maxlen
    if _caches(thing):
        with suppress(Exception):
            most: int | None = thing.cache_info().maxsize
            return most
    return None


def large(roots: Iterable[Found]) -> list[tuple[str, str, int, array[int]]]:
    """Large containers of Python objects: the way there, the class, the length, and the numbers of
    pages in which its elements lie, of a few thousand of them.
    """
    found = []
    for each in reached(roots):
        path, thing = each.path, each.thing
        if isinstance(thing, (list, tuple, dict, set, frozenset)) or _objects(thing):
            if len(thing) >= _MANY:
                found.append((path, _kind(thing), len(thing), _pages(thing)))
        elif type(thing).__module__.startswith("pandas.") and hasattr(thing, "columns"):
            for name in thing.columns:
                column = np.asarray(thing[name].array) if thing[name].dtype == object else None
                if column is not None and len(column) >= _MANY:
                    place = f"{path}[{name!r}]"
                    found.append((place, "column of objects", len(column), _pages(column)))
    return found


def own_share(pages: array[int]) -> float:
    """The part of these pages that no other process shares with this one; -1 if unknown."""
    try:
        entries = os.open("/proc/self/pagemap", os.O_RDONLY)
    except OSError:
        return -1.0
    try:
        own = 0
        for page in pages:
            entry = int.from_bytes(os.pread(entries, 8, page * 8), "little")
            own += entry >> 56 & 1  # "page exclusively mapped"
        return own / len(pages)
    except OSError:
        return -1.0
    finally:
        os.close(entries)


def _caches(thing: Any) -> bool:
    # A function under `lru_cache`, or under another library's that has the same manners.
    of_its_own = vars(thing) if inspect.isfunction(thing) else ()
    return hasattr(type(thing), "cache_info") or "cache_info" in of_its_own


def _kind(thing: Any) -> str:
    return "array of objects" if isinstance(thing, np.ndarray) else type(thing).__name__


def _objects(thing: Any) -> bool:
    return isinstance(thing, np.ndarray) and thing.dtype == object and thing.ndim == 1


def _pages(thing: Any) -> array[int]:
    # Only the elements that are objects of their own: small numbers are shared by everybody.
    every = max(len(thing) // _FOLLOWED, 1)
    source = thing.values() if isinstance(thing, dict) else thing
    pages = array("Q")
    for number, each in enumerate(source):
        if number % every == 0 and not isinstance(each, (bool, type(None))):
            pages.append(id(each) // _PAGE)
    return pages or array("Q", [id(thing) // _PAGE])


# What code of yours can get at


def reached(starts: Iterable[Found]) -> Iterator[Found]:
    """Everything in reach: also by the defaults of functions, by classes and modules of yours."""
    return search(starts, _in_reach, deep=6, most=4000, passed=_has_no_objects)


def _has_no_objects(thing: Any) -> bool:
    if isinstance(thing, np.ndarray):
        return not _objects(thing)
    return isinstance(thing, _PLAIN)


def _in_reach(found: Found) -> list[Found]:
    path, thing = found.path, found.thing
    if isinstance(thing, types.ModuleType):
        own = vars(thing) if _is_yours(thing) else {}
        return [Found(f"{thing.__name__}.{name}", each) for name, each in own.items()]
    if isinstance(thing, (dict, list, tuple, deque)):
        return elements(found)
    if isinstance(thing, types.MethodType):
        return [Found(f"{path}.__self__", thing.__self__), Found(path, thing.__func__)]
    if isinstance(thing, functools.partial):
        return [Found(path, each) for each in (thing.func, *thing.args)]
    if isinstance(thing, types.GeneratorType):
        names = thing.gi_frame.f_locals if thing.gi_frame else {}
        return [Found(f"{path}: {name}", each) for name, each in names.items()]
    if inspect.isfunction(thing):
        return [*_in_function(thing), *_module_of(thing)] if _is_your_code(thing) else []
    if isinstance(thing, type):
        yours = [base for base in thing.__mro__ if _is_your_code(base)]
        parts = [
            Found(f"{base.__name__}.{name}", each)
            for base in yours
            for name, each in vars(base).items()
        ]
        return [*parts, *_module_of(thing)] if _is_your_code(thing) else []
    return [*attributes(found), Found(path, type(thing))]


def _in_function(function: types.FunctionType) -> list[Found]:
    name, defaults = function.__name__, function.__defaults__ or ()
    return [
        *(Found(f"{name}: {own}", each) for own, each in cells(function)),
        *(Found(f"{name}: default {at}", each) for at, each in enumerate(defaults)),
    ]


def _module_of(thing: Any) -> list[Found]:
    return [Found(thing.__module__, sys.modules[thing.__module__])]


def _is_your_code(thing: Any) -> bool:
    # Neither a library's nor Python's.
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return module is not None and module.__name__ != "builtins" and _is_yours(module)


def _is_yours(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ == "__main__"
    return "site-packages" not in file and not file.startswith(os.path.dirname(os.__file__))
