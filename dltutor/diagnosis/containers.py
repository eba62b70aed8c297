"""The containers that a dataset can reach, with the way there; and the memory of what they hold."""

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

_DEEP: Final = 6
_MOST: Final = 4000  # things that are looked at
_WIDE: Final = 24  # elements of a container that are followed
_MANY: Final = 2000  # elements from which on a container is large
_FOLLOWED: Final = 2000  # elements of a large container whose pages are looked at
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_WHOLE: Final = (str, bytes, int, float, complex, bool, type(None), np.generic, np.ndarray)


def reached(roots: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Everything that can be reached from some objects: through attributes, elements, closures,
    the classes and the modules of what is somebody's own.

    Args:
        roots: The objects, each with its name.
    """
    waiting = deque((path, thing, _DEEP) for path, thing in roots)
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        path, thing, depth = waiting.popleft()
        if id(thing) in seen or (isinstance(thing, _WHOLE) and not _objects(thing)):
            continue
        seen.add(id(thing))
        yield path, thing
        if depth:
            with suppress(Exception):  # attributes of anybody's may do anything when asked
                waiting += [(name, each, depth - 1) for name, each in _within(path, thing)]


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


def large(roots: Iterable[tuple[str, Any]]) -> list[tuple[str, str, int, array[int]]]:
    """Large containers of Python objects: the way there, the class, the length, and the numbers of
    pages in which its elements lie, of a few thousand of them.
    """
    found = []
    for path, thing in reached(roots):
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


def _within(path: str, thing: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    if isinstance(thing, types.ModuleType):
        named = vars(thing).items() if _own_module(thing) else ()
        return [(f"{thing.__name__}.{name}", each) for name, each in named]
    if isinstance(thing, dict):
        return [(f"{path}[{key!r}]", each) for key, each in list(thing.items())[:_WIDE]]
    if isinstance(thing, (list, tuple, deque)):
        some = [thing[number] for number in range(min(len(thing), _WIDE))]
        return [(f"{path}[{number}]", each) for number, each in enumerate(some)]
    if isinstance(thing, types.MethodType):
        return [(f"{path}.__self__", thing.__self__), (path, thing.__func__)]
    if isinstance(thing, functools.partial):
        return [(path, thing.func), *((path, each) for each in thing.args)]
    if isinstance(thing, types.GeneratorType):
        frame = thing.gi_frame
        return [(f"{path}: {name}", each) for name, each in frame.f_locals.items()] if frame else []
    if inspect.isfunction(thing):
        if not _own(thing):
            return []
        names = thing.__code__.co_freevars
        for name, cell in zip(names, thing.__closure__ or (), strict=False):
            with suppress(ValueError):  # an empty cell
                found.append((f"{thing.__name__}: {name}", cell.cell_contents))
        for number, each in enumerate(thing.__defaults__ or ()):
            found.append((f"{thing.__name__}: default {number}", each))
        return found + _module(thing)
    if isinstance(thing, type):
        if _own(thing):
            for base in thing.__mro__:
                if _own(base):
                    found += [
                        (f"{base.__name__}.{name}", each) for name, each in vars(base).items()
                    ]
            found += _module(thing)
        return found
    held = getattr(thing, "__dict__", None)
    if isinstance(held, dict):
        found += [(f"{path}.{name}", each) for name, each in held.items()]
    for cls in type(thing).__mro__:
        for name in getattr(cls, "__slots__", ()):
            with suppress(AttributeError):
                found.append((f"{path}.{name}", getattr(thing, name)))
    return [*found, (path, type(thing))]


def _module(thing: Any) -> list[tuple[str, Any]]:
    module = sys.modules.get(thing.__module__)
    return [(thing.__module__, module)] if module is not None and _own(thing) else []


def _own(thing: Any) -> bool:
    # Somebody's own code: neither a library's nor Python's.
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return module is not None and module.__name__ != "builtins" and _own_module(module)


def _own_module(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ == "__main__"
    return "site-packages" not in file and not file.startswith(os.path.dirname(os.__file__))
