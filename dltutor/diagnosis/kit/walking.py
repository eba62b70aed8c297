"""The walk through what things hold, the nearest first, each with the way there.

`search` is the walk. `walk` begins at a dataset and ends with the globals of its code; `near`, in
names.py, looks at classes too; `reached`, in containers.py, at all that your code can get at.
"""

from __future__ import annotations

import functools
import sys
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

_EACH: Final = 24  # elements of a container
_ATTRIBUTES: Final = 200  # of one object
_PLAIN: Final = (str, bytes, int, float, complex, type(None))
_WHOLE: Final = (*_PLAIN, np.ndarray, torch.Tensor)
_LIBRARIES: Final = ("torch", "numpy", "dltutor.diagnosis", "dltutor.observation")


@dataclass(frozen=True)
class Found:
    """A thing, the way there, and who holds it under which name.

    Args:
        path: As one writes it: `dataset.transform.rng`, or `module.NAME`.
        thing: What was found.
        holder: The object, module or container that holds it; None where it cannot be put back.
        key: The attribute's name, or the key or position in a container.
    """

    path: str
    thing: Any
    holder: Any = None
    key: Any = None


def put(found: Found, *instead: Any) -> None:
    """Put a thing back where it was found, or something else in its place."""
    thing = instead[0] if instead else found.thing
    if isinstance(found.holder, (dict, list)):
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
    """Everything that can be reached from some things, breadth first, each thing once.

    Args:
        starts: Where it begins.
        inside: What a thing holds.
        deep: Levels below the starts.
        most: Things at most.
        passed: Whether a thing is passed over, with all that it holds.
        repeated: Types of things that are found each time: equal numbers may be one object.
        seen: The ids of things that have been found before; it is added to.
    """
    waiting = deque((each, deep) for each in starts)
    seen = set() if seen is None else seen
    count = 0
    while waiting and count < most:
        found, depth = waiting.popleft()
        if passed(found.thing):
            continue
        if not isinstance(found.thing, repeated):
            if id(found.thing) in seen:
                continue
            seen.add(id(found.thing))
        count += 1
        yield found
        if depth:
            with suppress(Exception):  # attributes of anybody's may do anything when asked
                waiting.extend((each, depth - 1) for each in inside(found))


# What a dataset holds


def walk(dataset: Any) -> Iterator[Found]:
    """Everything that a dataset holds, then the globals of the modules that its code comes from.

    Args:
        dataset: Any object.
    """
    names: set[str] = set()
    seen: set[int] = set()
    most = 3000
    limits: dict[str, Any] = {"passed": _is_elsewhere, "repeated": _PLAIN, "seen": seen}
    for found in search([Found("dataset", dataset)], held, deep=6, most=most, **limits):
        most -= 1
        yield found
        names |= _modules(found.thing)
    yield from search(_globals(names), held, deep=3, most=most, **limits)


def held(found: Found) -> list[Found]:
    """What an object holds: elements, attributes, closures, the arguments of a partial."""
    path, thing = found.path, found.thing
    if isinstance(thing, (*_WHOLE, type)):
        return []
    if isinstance(thing, (dict, list, tuple)):
        return elements(found)
    parts: list[Found] = []
    if isinstance(thing, functools.partial):
        parts += [Found(f"{path}.args[{at}]", each) for at, each in enumerate(thing.args)]
        parts += [Found(f"{path}.keywords[{key!r}]", each) for key, each in thing.keywords.items()]
        parts.append(Found(f"{path}.func", thing.func))
    if isinstance(thing, types.MethodType):
        parts.append(Found(f"{path}.__self__", thing.__self__))
    if isinstance(thing, types.FunctionType):
        parts += [Found(f"{name} of {path}", each) for name, each in cells(thing)]
    return parts + attributes(found)


def _is_elsewhere(thing: Any) -> bool:
    return isinstance(thing, (types.ModuleType, DataLoader))


def _globals(names: set[str]) -> list[Found]:
    # What these modules hold under global names.
    found = []
    for name in sorted(names):
        module = sys.modules.get(name)
        if module is None or name == "builtins" or name.startswith(_LIBRARIES):
            continue
        for key, each in list(vars(module).items()):
            if not key.startswith("__") and not isinstance(each, (types.ModuleType, type)):
                last = name.rpartition(".")[2]
                found.append(Found(f"{last}.{key}", each, module, key))
    return found


def _modules(thing: Any) -> set[str]:
    if isinstance(thing, (types.FunctionType, types.MethodType)):
        return {thing.__module__ or ""}
    return {cls.__module__ for cls in type(thing).__mro__}


def elements(found: Found) -> list[Found]:
    """The first elements of a container."""
    path, thing = found.path, found.thing
    pairs = thing.items() if isinstance(thing, dict) else enumerate(thing)
    return [Found(f"{path}[{key!r}]", each, thing, key) for key, each in list(islice(pairs, _EACH))]


def attributes(found: Found) -> list[Found]:
    """The attributes of an object, also those in slots."""
    thing = found.thing
    own = getattr(thing, "__dict__", None)
    found_here = dict(own) if isinstance(own, dict) else {}
    for cls in type(thing).__mro__:
        names = vars(cls).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            with suppress(AttributeError):
                found_here.setdefault(name, object.__getattribute__(thing, name))
    some = islice(found_here.items(), _ATTRIBUTES)
    return [Found(f"{found.path}.{name}", each, thing, name) for name, each in some]


def cells(function: types.FunctionType) -> list[tuple[str, Any]]:
    """What a function is closed over, by name."""
    found = []
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        with suppress(ValueError):  # an empty cell
            found.append((name, cell.cell_contents))
    return found
