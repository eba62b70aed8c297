"""What can be reached from a dataset, from a frame, from the modules of your code, by name."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from dltutor.diagnosis.bench import Bench
from dltutor.diagnosis.experiments.parts import inside
from dltutor.observation.errors import is_yours

MOST: Final = 4000  # things that are looked at from the roots
_DEEP: Final = 3


def roots_of(bench: Bench | None) -> list[tuple[str, Any]]:
    """Where the names of things are looked up: the dataset, and the modules of your code."""
    roots: list[tuple[str, Any]] = []
    if bench is not None:
        roots += [("dataset", bench.dataset), ("collate_fn", bench.inner.collate_fn)]
        if bench.inner.worker_init_fn is not None:
            roots.append(("worker_init_fn", bench.inner.worker_init_fn))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name == "__main__" or (file and is_yours(file)):
            held = list(vars(module).items())
            roots += [(own, each) for own, each in held if not own.startswith("__")]
    figure: Any = sys.modules.get("matplotlib.figure")
    if figure is not None:
        roots.append(("Figure", figure.Figure))
    return roots


def named(roots: Sequence[tuple[str, Any]], wanted: Any) -> str:
    """The name under which something is reached; "" if it is not."""
    return next((path for path, thing in walk(roots) if thing is wanted), "")


def walk(starts: Sequence[tuple[str, Any]], most: int = MOST) -> list[tuple[str, Any]]:
    """What things hold, a few levels deep, the nearest first: [name, object]."""
    found: list[tuple[str, Any]] = []
    waiting = [(path, thing, _DEEP) for path, thing in starts]
    seen: set[int] = set()
    while waiting and len(found) < most:
        path, thing, depth = waiting.pop(0)
        if id(thing) in seen or isinstance(thing, types.ModuleType):
            continue
        seen.add(id(thing))
        found.append((path, thing))
        if depth:
            waiting += [(name, each, depth - 1) for name, each in parts_of(path, thing)]
    return found


def parts_of(path: str, thing: Any) -> list[tuple[str, Any]]:
    """What an object holds, what its class holds, and what a function is bound to."""
    found = inside(path, thing)
    if isinstance(thing, types.MethodType):
        found.append((f"{path}.__self__", thing.__self__))
    elif isinstance(thing, types.FunctionType):
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False)
        for name, cell in cells:
            with suppress(ValueError):
                found.append((name, cell.cell_contents))
    elif isinstance(thing, type):
        return _class_attributes(path, thing)
    if type(thing).__module__ not in ("builtins", "threading", "queue"):
        found += _class_attributes(path, type(thing))
    return found


def _class_attributes(path: str, cls: type) -> list[tuple[str, Any]]:
    if cls.__module__.partition(".")[0] in ("builtins", "torch", *_STANDARD):
        return []
    plain = (types.FunctionType, property, staticmethod, classmethod, str, type(None))
    return [
        (f"{path}.{name}", each)
        for base in cls.__mro__
        for name, each in vars(base).items()
        if not name.startswith("__") and not isinstance(each, plain)
    ]


_STANDARD: Final = sys.stdlib_module_names - {"__main__"}
