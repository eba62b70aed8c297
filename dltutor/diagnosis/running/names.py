"""Find the name under which your code reaches a lock, a thread, or an executor."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from dltutor.diagnosis.objects.walking import Found, held, search
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import attributes_of, file_of, is_a, lineage, module_of

_PARTS: Final = ("dataset", "collate_fn", "worker_init_fn")
_STANDARD: Final = sys.stdlib_module_names - {"__main__"}


def roots_of(subject: Subject | None) -> list[Found]:
    """Return the objects that names start from: parts of the loader, your globals, and `Figure`.

    The parts are the dataset, the collate_fn, and the worker_init_fn (if the loader has one). If
    `subject` is None, leave out the parts. The class `Figure` has the lock under which matplotlib
    draws. If matplotlib isn't imported, leave out `Figure`.
    """
    roots: list[Found] = []
    if subject is not None:
        roots += [Found("dataset", subject.dataset), Found("collate_fn", subject.inner.collate_fn)]
        if subject.inner.worker_init_fn is not None:
            roots.append(Found("worker_init_fn", subject.inner.worker_init_fn))
    for name, module in list(sys.modules.items()):
        file = file_of(module)
        if name == "__main__" or (file and is_yours(file)):
            own = attributes_of(module).items()
            roots += [Found(key, each) for key, each in own if not key.startswith("__")]
    figure = attributes_of(sys.modules.get("matplotlib.figure")).get("Figure")
    if figure is not None:
        roots.append(Found("Figure", figure))
    return roots


def named(roots: Sequence[Found], wanted: Any) -> str:
    """Return the path from a root to an object, or "" if `near` doesn't find the object."""
    return next((each.path for each in near(roots) if each.thing is wanted), "")


def near(starts: Iterable[Found], most: int = 4000) -> Iterator[Found]:
    """Yield some objects, and what they and their classes hold, three levels deep.

    The loader's own parts come first, so that many globals in your modules don't crowd them out.

    Args:
        starts: The objects, such as those from `roots_of`.
        most: How many objects to yield from the loader's parts, and again from the rest, at most.
    """
    seen: set[int] = set()
    starts = [*starts]
    parts = [each for each in starts if each.path in _PARTS]
    for some in (parts, [each for each in starts if each.path not in _PARTS]):
        yield from search(some, held_by_class_too, deep=3, most=most, passed=_is_module, seen=seen)


def _is_module(thing: Any) -> bool:
    return is_a(thing, types.ModuleType)


def held_by_class_too(found: Found) -> list[Found]:
    """Return what an object and its class hold, or for a class, only what the class holds.

    A class from the standard library or torch holds nothing. In any other class, methods,
    properties, strings, and None don't count, and neither do names that begin with `__`.
    """
    if is_a(found.thing, type):
        return _class_attributes(found.path, found.thing)
    if module_of(type(found.thing)) in ("builtins", "threading", "queue"):
        return held(found)
    return held(found) + _class_attributes(found.path, type(found.thing))


def _class_attributes(path: str, cls: type) -> list[Found]:
    if module_of(cls).partition(".")[0] in ("builtins", "torch", *_STANDARD):
        return []
    plain = (types.FunctionType, property, staticmethod, classmethod, str, type(None))
    return [
        Found(f"{path}.{name}", each)
        for base in lineage(cls)
        for name, each in attributes_of(base).items()
        if not name.startswith("__") and not is_a(each, plain)
    ]
