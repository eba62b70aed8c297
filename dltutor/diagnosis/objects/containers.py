"""Find the containers that objects reach, their lengths, and the memory pages of their elements."""

from __future__ import annotations

import functools
import os
import sys
import types
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final

import numpy as np

from dltutor.diagnosis.objects.walking import Found, attributes, cells, elements, search
from dltutor.observation import foreign
from dltutor.observation.foreign import (
    attribute,
    attributes_of,
    file_of,
    is_a,
    length,
    lineage,
    module_of,
)

_MANY: Final = 2000  # a container with this many elements is large
_FOLLOWED: Final = 2000  # look up the pages of this many elements, or up to twice as many
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_PLAIN: Final = (str, bytes, int, float, complex, type(None), np.generic)


def size(thing: Any) -> int | None:
    """Return how many elements a container or cache that can grow has, or None for anything else.

    The containers that can grow are list, dict, set, deque, and bytearray. A cache is an object
    with a method `cache_info`, such as a function that's wrapped in `lru_cache`.
    """
    if is_a(thing, (list, dict, set, deque)):
        return length(thing)
    if is_a(thing, bytearray):
        return bytearray.__len__(thing)
    return _number(_cache_info(thing), "currsize")


def bound(thing: Any) -> int | None:
    """Return the most elements that a deque or a cache may hold, or None if there's no limit."""
    if is_a(thing, deque):
        return _number(thing, "maxlen")
    return _number(_cache_info(thing), "maxsize")


def large(roots: Iterable[Found]) -> list[tuple[str, str, int, array[int]]]:
    """Find containers of at least 2,000 Python objects, including columns in pandas.

    If a smaller container holds other containers, such as a dict of lists, count their elements.

    Args:
        roots: The objects where the search starts. The search covers what `reached` yields.

    Returns:
        For each container, a tuple with its path, its class or kind, how many elements it has, and
        the numbers of the memory pages of up to 4,000 elements, evenly spread.
    """
    found = []
    for each in reached(roots):
        path, thing = each.path, each.thing
        if is_a(thing, _CONTAINERS) or _objects(thing):
            if _count(thing) >= _MANY:
                found.append((path, _kind(thing), _count(thing), _pages([thing])))
            elif inside := _inside(thing):
                found.append((path, _kind(thing), sum(map(_count, inside)), _pages(inside)))
        elif module_of(type(thing)).startswith("pandas."):
            with suppress(Exception):  # if two columns have the same name, `_columns` raises
                found += _columns(path, thing)
    return found


def _columns(path: str, frame: Any) -> list[tuple[str, str, int, array[int]]]:
    found = []
    for name in getattr(frame, "columns", ()):
        column = np.asarray(frame[name].array) if frame[name].dtype == object else None
        if column is not None and len(column) >= _MANY:
            place = f"{path}[{foreign.text(name)}]"
            found.append((place, "column of objects", len(column), _pages([column])))
    return found


def own_share(pages: array[int]) -> float:
    """Return the share of these memory pages that no other process maps, or -1 if it isn't known.

    Args:
        pages: Page numbers in this process's memory, which are addresses divided by the page size.
    """
    with suppress(OSError), open("/proc/self/pagemap", "rb", buffering=0) as entries:
        own = 0
        for page in pages:
            entry = int.from_bytes(os.pread(entries.fileno(), 8, page * 8), "little")
            own += entry >> 56 & 1  # bit 56 is "page exclusively mapped"
        return own / len(pages)
    return -1.0


def _number(thing: Any, name: str) -> int | None:
    number = attribute(thing, name)
    return int(number) if type(number) is int else None


def _cache_info(thing: Any) -> Any:
    # Return what `cache_info()` returns, or None if there's no such method or if it raises. A
    # function wrapped in `lru_cache` gets the method from its class. Some other libraries' wrappers
    # are plain functions that have the method as an attribute.
    of_its_own = attributes_of(thing) if is_a(thing, types.FunctionType) else {}
    inherited = any("cache_info" in attributes_of(each) for each in lineage(type(thing)))
    if not inherited and "cache_info" not in of_its_own:
        return None
    with suppress(Exception):
        return thing.cache_info()
    return None


def _kind(thing: Any) -> str:
    return "array of objects" if is_a(thing, np.ndarray) else type(thing).__name__


def _count(thing: Any) -> int:
    return np.ndarray.__len__(thing) if is_a(thing, np.ndarray) else length(thing) or 0


def _objects(thing: Any) -> bool:
    if not is_a(thing, np.ndarray):
        return False
    plain = np.ndarray.view(thing, np.ndarray)  # a subclass may override `dtype` and `ndim`
    return plain.dtype == object and plain.ndim == 1


def _inside(thing: Any) -> list[Any]:
    # Return the containers in a container if they have many elements together, but none has so
    # many alone.
    inside = [each for each in _elements(thing) if is_a(each, _CONTAINERS)]
    counts = [_count(each) for each in inside]
    return inside if sum(counts) >= _MANY > max(counts, default=0) else []


def _elements(thing: Any) -> Iterator[Any]:
    if is_a(thing, np.ndarray):
        return iter(np.ndarray.__iter__(thing))
    return (each for _, each in foreign.elements(thing))


def _pages(things: list[Any]) -> array[int]:
    # Leave out True, False, and None, because these are the same objects in every container.
    every = max(sum(map(_count, things)) // _FOLLOWED, 1)
    pages = array("Q")
    for each in islice(chain.from_iterable(map(_elements, things)), 0, None, every):
        if not is_a(each, (bool, type(None))):
            pages.append(id(each) // _PAGE)
    return pages or array("Q", [id(things[0]) // _PAGE])


def reached(starts: Iterable[Found]) -> Iterator[Found]:
    """Yield some objects and what they reach, 6 levels deep, for at most 4,000 objects or 3 s.

    Besides attributes and elements, the search looks at functions (their closures and defaults),
    classes, and modules, as long as they're yours. It leaves out plain values, such as strings and
    numbers, and numpy arrays, except for one-dimensional arrays of Python objects.
    """
    return search(starts, _in_reach, deep=6, most=4000, passed=_has_no_objects)


def _has_no_objects(thing: Any) -> bool:
    if is_a(thing, np.ndarray):
        return not _objects(thing)
    return is_a(thing, _PLAIN)


def _in_reach(found: Found) -> list[Found]:
    path, thing = found.path, found.thing
    if is_a(thing, types.ModuleType):
        own = attributes_of(thing)
        named = own.get("__name__", "") if _is_yours(thing) else ""
        return [Found(f"{named}.{name}", each) for name, each in own.items()] if named else []
    if is_a(thing, (dict, list, tuple, deque)):
        return elements(found)
    if is_a(thing, types.MethodType):
        return [Found(f"{path}.__self__", thing.__self__), Found(path, thing.__func__)]
    if is_a(thing, functools.partial):
        return [Found(path, each) for each in (thing.func, *thing.args)]
    if is_a(thing, types.GeneratorType):
        names = thing.gi_frame.f_locals if thing.gi_frame else {}
        return [Found(f"{path}: {name}", each) for name, each in names.items()]
    if is_a(thing, types.FunctionType):
        name, defaults = thing.__name__, thing.__defaults__ or ()
        parts = [Found(f"{name}: {own}", each) for own, each in cells(thing)]
        parts += [Found(f"{name}: default {at}", each) for at, each in enumerate(defaults)]
        return [*parts, *_module_of(thing)] if _is_your_code(thing) else []
    if is_a(thing, type):
        yours = [base for base in lineage(thing) if _is_your_code(base)]
        parts = [
            Found(f"{base.__name__}.{name}", each)
            for base in yours
            for name, each in attributes_of(base).items()
        ]
        return [*parts, *_module_of(thing)] if _is_your_code(thing) else []
    return [*attributes(found), Found(path, type(thing))]


def _module_of(thing: Any) -> list[Found]:
    name = module_of(thing)
    return [Found(name, sys.modules[name])]


def _is_your_code(thing: Any) -> bool:
    name = module_of(thing)
    return name != "builtins" and name in sys.modules and _is_yours(sys.modules[name])


def _is_yours(module: Any) -> bool:
    file = file_of(module)
    if not file:
        return module is sys.modules.get("__main__")
    return "site-packages" not in file and not file.startswith(os.path.dirname(os.__file__))
