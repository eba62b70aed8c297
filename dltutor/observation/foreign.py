"""Inspect objects that aren't ours, without errors, and without running their code if possible.

`isinstance` reads an object's `__class__`, which fails for a dead `weakref.proxy`. `vars`,
`getattr`, and `len` call methods that the object's class defines, and these methods may fail,
recurse, or change the object. The functions here read what the interpreter itself stores. If they
have to call a method and it fails, they return a default, such as None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, Final

from dltutor.observation import texts

_CONTAINERS: Final[tuple[Any, ...]] = (dict, list, tuple, deque, set, frozenset)
_OF_CLASSES: Final = vars(type)
_NOTHING: Final = object()
_DEEP: Final = 32  # the most levels of nested containers to follow
_LINE: Final = 160  # the most characters that `first_line` returns


def is_a(thing: object, kinds: type | tuple[type, ...]) -> bool:
    """Return whether an object's class is, or inherits from, one of these classes or ABCs.

    A proxy, such as `weakref.proxy`, doesn't count as the object behind it.
    """
    return issubclass(type(thing), kinds)


def kind_of(thing: object) -> str:
    """Return the name of an object's class, even if the metaclass overrides `__name__`."""
    name: str = _OF_CLASSES["__name__"].__get__(type(thing))
    return name


def lineage(cls: type) -> tuple[type, ...]:
    """Return the classes in a class's MRO, even if the metaclass overrides `__mro__`."""
    found: tuple[type, ...] = _OF_CLASSES["__mro__"].__get__(cls)
    return found


def attribute(thing: object, name: str, otherwise: Any = None) -> Any:
    """Return an object's attribute, or `otherwise` if it has none or raises an Exception."""
    try:
        return getattr(thing, name, otherwise)
    except Exception:
        return otherwise


def has(thing: object, name: str) -> bool:
    """Return whether an object has an attribute, or False if the object raises an exception."""
    return attribute(thing, name, _NOTHING) is not _NOTHING


def attributes_of(thing: object) -> dict[str, Any]:
    """Return the attributes in the `__dict__` of an object, a class, or a module."""
    return {name: each for name, each in list(_dict_of(thing).items()) if type(name) is str}


def slots_of(thing: object) -> dict[str, Any]:
    """Return the attributes that an object keeps in `__slots__`, without those that aren't set."""
    found: dict[str, Any] = {}
    for cls in lineage(type(thing)):
        defined = _dict_of(cls)
        for name, slot in defined.items() if "__slots__" in defined else ():
            if type(slot) is MemberDescriptorType:
                with suppress(AttributeError):
                    found.setdefault(name, slot.__get__(thing))
    return found


def module_of(thing: object) -> str:
    """Return the name of the module that defines a class or a function, or "" if unknown."""
    of_class = _OF_CLASSES["__module__"].__get__
    try:
        name = (
            of_class(thing) if is_a(thing, type) else object.__getattribute__(thing, "__module__")
        )
    except Exception:
        return ""
    return name if type(name) is str else ""


def file_of(module: object) -> str:
    """Return a module's file, or "" if unknown, without loading a lazy module."""
    file = _dict_of(module).get("__file__")
    return file if type(file) is str else ""


def elements(thing: object) -> Iterator[tuple[Any, Any]]:
    """Yield the elements of a container, each with its key or its position.

    The containers are dict, list, tuple, deque, set, frozenset, and any other Mapping. If such a
    Mapping raises an exception, its elements end there. Anything else has no elements. If a
    subclass of dict, list, and so on overrides `items` or `__iter__`, don't call that method.
    """
    kind = _container(thing)
    if kind is None:
        return _items(thing) if is_a(thing, Mapping) else iter(())
    if kind is dict:
        return iter(dict.items(thing))  # type: ignore[arg-type]  # `thing` is a dict
    found: Iterable[Any] = kind.__iter__(thing)
    return enumerate(found)


def length(thing: object) -> int | None:
    """Return the length of a dict, list, tuple, deque, set, or frozenset, or None for others."""
    kind = _container(thing)
    return None if kind is None else int(kind.__len__(thing))


def length_by_shape(batch: Any) -> int | None:
    """Return the number of samples in a batch that torch's `default_collate` made.

    `default_collate` puts the samples' first parts into one tensor, or into one list if they are
    strings. This function returns the length of that tensor or list, or None if the first part has
    no dimensions and isn't a list of strings. If other code made the batch, the length is a guess.
    """
    for _ in range(_DEEP):
        if not is_a(batch, (Mapping, list, tuple)):
            break
        _, first = next(elements(batch), (None, ""))
        # ["cat", "dog"] is a batch of names, but [images, labels] is a batch of tensors.
        if is_a(batch, (list, tuple)) and is_a(first, (str, bytes)):
            return length(batch)
        batch = first
    shape = attribute(batch, "shape")
    return int(shape[0]) if is_a(shape, tuple) and shape else None


def number(thing: object) -> int | float | None:
    """Return an `int` or `float`, even of a subclass, as a plain number, or None for others."""
    if is_a(thing, int):
        return int.__index__(thing)  # type: ignore[arg-type]  # `thing` is an int
    return float.__float__(thing) if is_a(thing, float) else None  # type: ignore[arg-type]


def text(thing: object) -> str:
    """Return an object's `repr`, or the name of its class if `repr` raises."""
    try:
        return repr(thing)
    except Exception:
        return f"<{kind_of(thing)}>"


def message_of(error: BaseException) -> str:
    """Return an exception's message, or "" if its `__str__` raises."""
    try:
        return str(error)
    except Exception:
        return ""


def said(error: BaseException) -> str:
    """Return an exception's type and message, as `texts.said` formats them."""
    return texts.said(kind_of(error), message_of(error))


def first_line(error: BaseException) -> str:
    """Return the first line of `said`, but at most 160 characters."""
    return said(error).partition("\n")[0][:_LINE]


def _container(thing: object) -> Any:
    return next((kind for kind in _CONTAINERS if is_a(thing, kind)), None)


def _items(mapping: Any) -> Iterator[tuple[Any, Any]]:
    with suppress(Exception):
        yield from ((key, each) for key, each in mapping.items())


def _dict_of(thing: object) -> Any:
    # Bypass the class's `__getattribute__`. Python still calls a property named `__dict__`.
    try:
        own = object.__getattribute__(thing, "__dict__")
    except Exception:
        return {}
    return own if is_a(own, (dict, type(_OF_CLASSES))) else {}
