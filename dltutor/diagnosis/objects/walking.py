"""Walk through everything that some objects hold, the nearest first, with the path to each.

`search` is the walk itself. `walk` starts from a dataset and ends with the globals of the modules
that define its code. `near` in names.py also looks at classes, and `reached` in containers.py looks
at your functions, classes, and modules, too.
"""

from __future__ import annotations

import functools
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.observation import foreign
from dltutor.observation.foreign import attributes_of, is_a, lineage, module_of

_EACH: Final = 24  # the most elements to visit in one container
_ATTRIBUTES: Final = 200  # the most attributes to visit in one object
_LONGEST: Final = 3.0  # the most seconds for one `search`, including the caller's work
_PLAIN: Final = (str, bytes, int, float, complex, type(None))
_WHOLE: Final = (*_PLAIN, np.ndarray, torch.Tensor)
_LIBRARIES: Final = ("torch", "numpy", "dltutor.diagnosis", "dltutor.observation")


@dataclass(frozen=True)
class Found:
    """An object, the path to it, and what holds it, so that `put` can replace it there.

    Args:
        path: The path, usually as code, such as `dataset.transform.rng` or `module.NAME`.
        thing: The object that was found.
        holder: The object, module, or container that holds `thing`. If None, `put` doesn't work.
        key: The name of the attribute in the holder, or the key or position.
    """

    path: str
    thing: Any
    holder: Any = None
    key: Any = None


def put(found: Found, *instead: Any) -> None:
    """Put an object back where it was found, or put another object there.

    Args:
        found: The object, and where it was found.
        instead: If given, the one object to put there.

    Raises:
        Exception: The holder can't be changed, for example because it's a tuple.
    """
    thing = instead[0] if instead else found.thing
    if is_a(found.holder, (dict, list)):
        found.holder[found.key] = thing
    else:
        setattr(found.holder, found.key, thing)


def search(
    starts: Iterable[Found],
    inside: Callable[[Found], Iterable[Found]],
    *,
    deep: int,
    most: int,
    passed: Callable[[Any], bool] = lambda thing: False,
    repeated: tuple[type, ...] = (),
    seen: set[int] | None = None,
) -> Iterator[Found]:
    """Yield some objects and everything that they reach, breadth first, each object once.

    Args:
        starts: The objects from which to start.
        inside: A function that returns what an object holds.
        deep: How many levels to go below the starts.
        most: How many objects to yield, at most. The search also stops after 3 s.
        passed: A function that returns whether to skip an object and everything in it (default:
            skip none).
        repeated: Types of objects to yield every time, because equal numbers may be one object.
        seen: The ids of objects to skip (default: none). The search adds the ids of the objects
            that it yields, except for the types in `repeated`.
    """
    waiting = deque((each, deep) for each in starts)
    seen = set() if seen is None else seen
    count, until = 0, time.monotonic() + _LONGEST
    while waiting and count < most and time.monotonic() < until:
        found, depth = waiting.popleft()
        if passed(found.thing):
            continue
        if not is_a(found.thing, repeated):
            if id(found.thing) in seen:
                continue
            seen.add(id(found.thing))
        count += 1
        yield found
        if depth:
            with suppress(Exception):  # a thread may be changing a dict
                waiting.extend((each, depth - 1) for each in inside(found))


def walk(
    dataset: Any, *others: Any, named: str = "dataset", with_globals: bool = True
) -> Iterator[Found]:
    """Yield a dataset and what it holds, then the globals of its code and what these hold.

    The globals are those of each module that defines a function, or the class of an object, that
    the dataset holds, except for torch, numpy, and the doctor's own modules. The walk yields no
    module and no DataLoader, goes six levels deep in the dataset and three in the globals, and
    yields at most 3,000 objects.

    Args:
        dataset: Any object.
        others: More objects to start from, whose paths start with an empty name.
        named: The name that the dataset's paths start with (default "dataset").
        with_globals: Whether to include the globals (default True).
    """
    names: set[str] = set()
    seen: set[int] = set()
    most = 3000
    limits: dict[str, Any] = {"passed": _is_module_or_loader, "repeated": _PLAIN, "seen": seen}
    starts = [Found(named, dataset), *(Found("", each) for each in others)]
    for found in search(starts, held, deep=6, most=most, **limits):
        most -= 1
        yield found
        names |= _modules(found.thing)
    if with_globals:
        yield from search(_globals(names), held, deep=3, most=most, **limits)


def snapshot(dataset: Any, read: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what `read` returns for each object in `walk(dataset)`, by path.

    Leave out an object if `read` returns None or raises an exception.
    """
    found = {}
    for each in walk(dataset):
        with suppress(Exception):
            if (value := read(each.thing)) is not None:
                found[each.path] = value
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the paths that are in both snapshots, but with different values."""
    return [path for path, value in after.items() if before.get(path, value) != value]


def held(found: Found) -> list[Found]:
    """Return what an object holds, such as attributes or variables of a closure.

    From a dict, list, or tuple, return the first 24 elements. Classes and plain values, such as
    strings, arrays, and tensors, hold nothing.
    """
    path, thing = found.path, found.thing
    if is_a(thing, (*_WHOLE, type)):
        return []
    if is_a(thing, (dict, list, tuple)):
        return elements(found)
    parts: list[Found] = []
    if is_a(thing, functools.partial):
        parts += [Found(f"{path}.args[{at}]", each) for at, each in enumerate(thing.args)]
        parts += [Found(f"{path}.keywords[{key!r}]", each) for key, each in thing.keywords.items()]
        parts.append(Found(f"{path}.func", thing.func))
    if is_a(thing, types.MethodType):
        parts.append(Found(f"{path}.__self__", thing.__self__))
    if is_a(thing, types.FunctionType):
        parts += [Found(f"{name} of {path}", each) for name, each in cells(thing)]
    return parts + attributes(found)


def _is_module_or_loader(thing: Any) -> bool:
    return is_a(thing, (types.ModuleType, DataLoader))


def _globals(names: set[str]) -> list[Found]:
    found = []
    for name in sorted(names):
        module = sys.modules.get(name)
        if name == "builtins" or name.startswith(_LIBRARIES):
            continue
        for key, each in attributes_of(module).items():
            if not key.startswith("__") and not is_a(each, (types.ModuleType, type)):
                last = name.rpartition(".")[2]
                found.append(Found(f"{last}.{key}", each, module, key))
    return found


def _modules(thing: Any) -> set[str]:
    if is_a(thing, (types.FunctionType, types.MethodType)):
        return {module_of(thing)}
    return {module_of(cls) for cls in lineage(type(thing))}


def elements(found: Found) -> list[Found]:
    """Return the first 24 elements of a container, with their paths."""
    path, thing = found.path, found.thing
    pairs = list(islice(foreign.elements(thing), _EACH))
    return [Found(f"{path}[{foreign.text(key)}]", each, thing, key) for key, each in pairs]


def attributes(found: Found) -> list[Found]:
    """Return up to 200 attributes of an object, including slots, with their paths."""
    thing = found.thing
    found_here = attributes_of(thing)
    for cls in lineage(type(thing)):
        names = attributes_of(cls).get("__slots__", ())
        for name in (names,) if is_a(names, str) else names:
            with suppress(Exception):  # a slot may be empty
                found_here.setdefault(name, object.__getattribute__(thing, name))
    some = islice(found_here.items(), _ATTRIBUTES)
    return [Found(f"{found.path}.{name}", each, thing, name) for name, each in some]


def cells(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Return the closure variables of a function, each as (name, value)."""
    found = []
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        with suppress(ValueError):  # a cell may be empty
            found.append((name, cell.cell_contents))
    return found
