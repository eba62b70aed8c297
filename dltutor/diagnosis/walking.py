"""A walk through what a dataset holds and what its code can reach, with the way there.

Attributes, containers, closures, partial arguments, and the globals of the modules that its classes
come from.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

_DEEP: Final = 6
_MOST: Final = 3000  # things that are looked at
_EACH: Final = 24  # elements of a container
_PLAIN: Final = (str, bytes, int, float, complex, type(None))
_WHOLE: Final = (*_PLAIN, np.ndarray, torch.Tensor)
_LIBRARIES: Final = ("torch", "numpy", "dltutor.diagnosis", "dltutor.observation")


@dataclass(frozen=True)
class Found:
    """A thing, the way there, and who holds it under which name.

    Args:
        path: As one writes it: `dataset.transform.rng`, or `module.NAME`.
        thing: What was found.
        holder: The object, module or container that holds it; None for the dataset itself.
        key: The attribute's name, or the key or position in a container.
    """

    path: str
    thing: Any
    holder: Any = None
    key: Any = None


def walk(dataset: Any) -> Iterator[Found]:
    """Everything in reach of a dataset, the nearest first.

    Args:
        dataset: Any object.
    """
    waiting: deque[tuple[Found, int]] = deque([(Found("dataset", dataset), _DEEP)])
    modules = False
    seen: set[int] = set()
    names: set[str] = set()  # of the modules that its code comes from
    for _ in range(_MOST):
        if not waiting:
            if modules:
                return
            modules = True
            waiting.extend((each, 3) for each in _globals(names))
            continue
        found, depth = waiting.popleft()
        thing = found.thing
        if isinstance(thing, (types.ModuleType, DataLoader)):
            continue
        if not isinstance(thing, _PLAIN):  # equal numbers may be one object
            if id(thing) in seen:
                continue
            seen.add(id(thing))
        yield found
        names |= _modules(thing) if not modules else set()
        if depth and not isinstance(thing, (*_WHOLE, type)):
            waiting.extend((each, depth - 1) for each in _inside(found))


def put(found: Found, *instead: Any) -> None:
    """Put a thing back where it was found, or something else in its place."""
    thing = instead[0] if instead else found.thing
    if isinstance(found.holder, (dict, list)):
        found.holder[found.key] = thing
    else:
        setattr(found.holder, found.key, thing)


def _globals(names: set[str]) -> list[Found]:
    """What these modules hold under global names."""
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


def _inside(found: Found) -> list[Found]:
    path, thing = found.path, found.thing
    if isinstance(thing, dict):
        pairs = list(thing.items())[:_EACH]
        return [Found(f"{path}[{key!r}]", each, thing, key) for key, each in pairs]
    if isinstance(thing, (list, tuple)):
        return [Found(f"{path}[{at}]", each, thing, at) for at, each in enumerate(thing[:_EACH])]
    held: list[Found] = []
    if isinstance(thing, functools.partial):
        held += [Found(f"{path}.args[{at}]", each) for at, each in enumerate(thing.args)]
        held += [Found(f"{path}.keywords[{key!r}]", each) for key, each in thing.keywords.items()]
        held.append(Found(f"{path}.func", thing.func))
    if isinstance(thing, types.MethodType):
        held.append(Found(f"{path}.__self__", thing.__self__))
    if isinstance(thing, types.FunctionType) and thing.__closure__:
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__, strict=False):
            with suppress(ValueError):  # an empty cell
                held.append(Found(f"{name} of {path}", cell.cell_contents))
    attributes = thing.__dict__ if isinstance(thing, threading.local) else _attributes(thing)
    held += [
        Found(f"{path}.{name}", each, thing, name) for name, each in list(attributes.items())[:200]
    ]
    return held


def _attributes(thing: Any) -> dict[str, Any]:
    held = getattr(thing, "__dict__", None)
    attributes = dict(held) if isinstance(held, dict) else {}
    for cls in type(thing).__mro__:
        names = vars(cls).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            with suppress(AttributeError):
                attributes.setdefault(name, object.__getattribute__(thing, name))
    return attributes
