"""Questions for objects that aren't ours, which may raise, recurse, or change when they're asked.

`isinstance` asks an object for its `__class__`, and a dead `weakref.proxy` raises then; `vars`,
`getattr`, and `len` call what its class defines. The functions here read what the interpreter knows
by itself. Where only the object knows, an exception counts as "it doesn't tell". None of them
raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from dltutor.observation import texts

_CONTAINERS: Final[tuple[Any, ...]] = (dict, list, tuple, deque, set, frozenset)
_OF_CLASSES: Final = vars(type)
_NOTHING: Final = object()


def is_a(thing: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether the class of a thing is one of these, or comes from one.

    A stand-in, such as a `weakref.proxy`, is not what it stands for.

    Args:
        thing: Any object.
        kinds: A class or several, also abstract ones such as `Mapping`.
    """
    return issubclass(type(thing), kinds)


def kind_of(thing: object) -> str:
    """The name of its class, whatever its metaclass says."""
    name: str = _OF_CLASSES["__name__"].__get__(type(thing))
    return name


def lineage(cls: type) -> tuple[type, ...]:
    """A class and all that it comes from, in order, whatever its metaclass says."""
    found: tuple[type, ...] = _OF_CLASSES["__mro__"].__get__(cls)
    return found


def attribute(thing: object, name: str, otherwise: Any = None) -> Any:
    """What `getattr` returns, or something else where that raises.

    Args:
        thing: Any object.
        name: The attribute.
        otherwise: What to return where there is none, or the object raises.
    """
    try:
        return getattr(thing, name, otherwise)
    except Exception:
        return otherwise


def has(thing: object, name: str) -> bool:
    """What `hasattr` returns; False where that raises."""
    return attribute(thing, name, _NOTHING) is not _NOTHING


def attributes_of(thing: object) -> dict[str, Any]:
    """The attributes that an object, a class or a module holds itself, by name."""
    return {name: each for name, each in list(_dict_of(thing).items()) if type(name) is str}


def module_of(thing: object) -> str:
    """The module where a class or a function was defined; "" where it doesn't say."""
    asked = _OF_CLASSES["__module__"].__get__ if is_a(thing, type) else _defined_in
    try:
        name = asked(thing)
    except Exception:
        return ""
    return name if type(name) is str else ""


def file_of(module: object) -> str:
    """The file that a module came from; "" without one. A lazy module stays unloaded."""
    file = _dict_of(module).get("__file__")
    return file if type(file) is str else ""


def elements(thing: object) -> Iterator[tuple[Any, Any]]:
    """The elements of a container, each with its key or its position.

    Of Python's own kinds, and of any other Mapping as far as it tells; nothing for anything else.
    What a class that comes from `dict` or `list` has put over `items` or `__iter__` isn't called.
    """
    kind = _container(thing)
    if kind is None:
        return _items(thing) if is_a(thing, Mapping) else iter(())
    if kind is dict:
        return iter(dict.items(thing))  # type: ignore[arg-type]  # it is one
    found: Iterable[Any] = kind.__iter__(thing)
    return enumerate(found)


def length(thing: object) -> int | None:
    """How many elements one of Python's own containers has; None for anything else."""
    kind = _container(thing)
    return None if kind is None else int(kind.__len__(thing))


def number(thing: object) -> int | float | None:
    """The plain number that an `int` or a `float` is, whatever its class makes of it, or None."""
    if is_a(thing, int):
        return int.__index__(thing)  # type: ignore[arg-type]  # it is one
    return float.__float__(thing) if is_a(thing, float) else None  # type: ignore[arg-type]


def text(thing: object) -> str:
    """What `repr` returns, or the name of its class where that raises."""
    try:
        return repr(thing)
    except Exception:
        return f"<{kind_of(thing)}>"


def message_of(error: BaseException) -> str:
    """The text of an exception; "" where it raises when it's asked for it."""
    try:
        return str(error)
    except Exception:
        return ""


def said(error: BaseException) -> str:
    """An exception in words, as `texts.said` has them."""
    return texts.said(kind_of(error), message_of(error))


def _container(thing: object) -> Any:
    return next((kind for kind in _CONTAINERS if is_a(thing, kind)), None)


def _items(mapping: Any) -> Iterator[tuple[Any, Any]]:
    with suppress(Exception):
        yield from ((key, each) for key, each in mapping.items())


def _dict_of(thing: object) -> Any:
    # Past `__getattribute__`: only a property of that name is still called.
    try:
        own = object.__getattribute__(thing, "__dict__")
    except Exception:
        return {}
    return own if is_a(own, (dict, type(_OF_CLASSES))) else {}


def _defined_in(thing: object) -> Any:
    return object.__getattribute__(thing, "__module__")
