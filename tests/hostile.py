"""Make objects that raise, seem endless, or mislead when code inspects them.

Spawned workers can import this module. `HOSTILE` has a function for each kind of object. A dataset
can hold such an object and work well, as long as the dataset's code never uses the object.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, cast
from unittest import mock

import numpy as np
import torch


class Refused(Exception):
    """The exception with which a hostile object refuses to be used."""


def _refuse(*args: Any, **options: Any) -> Any:
    raise Refused("ask somebody else")


def _with(name: str, method: Any, *bases: type) -> type:
    return type(f"With_{name.strip('_')}", bases, {name: method, "__module__": __name__})


_METHODS: Final = (
    *("__eq__", "__getattr__", "__getattribute__", "__len__", "__repr__", "__hash__", "__iter__"),
    *("__bool__", "__reduce__", "__reduce_ex__", "__fspath__", "__contains__", "__str__"),
)
_PROPERTIES: Final = ("__class__", "__dict__", "shape", "fileno", "set_epoch", "tobytes", "dtype")


class _Target:
    pass


def _dead_proxy() -> Any:
    return weakref.proxy(_Target())


def _no_text() -> Any:
    return _with("__module__", 5, object)()


class _List(list):  # type: ignore[type-arg]
    __len__ = __iter__ = __getitem__ = __eq__ = __repr__ = _refuse
    __hash__ = None


class _Dict(dict):  # type: ignore[type-arg]
    __len__ = __iter__ = __getitem__ = __eq__ = __repr__ = items = values = keys = _refuse
    __hash__ = None


class _Number(int):
    __eq__ = __repr__ = __hash__ = __lt__ = __bool__ = __add__ = __sub__ = _refuse


class _Text(str):
    __eq__ = __repr__ = __hash__ = __str__ = startswith = encode = _refuse


class _Array(np.ndarray):
    __array_function__ = __array_ufunc__ = __eq__ = __repr__ = __len__ = _refuse
    nbytes = shape = property(_refuse)


class _Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args: Any, **options: Any) -> Any:
        raise Refused("no function for this one")


class _Key:
    """A dict key whose `repr` raises."""

    __repr__ = _refuse


def _refusing_key() -> Any:
    return {_Key(): 1, "beside": 2}


class _Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise Refused(name)


class Lazy(types.ModuleType):
    """A stand-in for a lazily imported module, whose import fails when code reads an attribute."""

    def __getattribute__(self, name: str) -> Any:
        raise Refused(name)


def lazy() -> types.ModuleType:
    return Lazy("hostile_lazy")


def optional() -> types.ModuleType:
    """Make a module whose own `__getattr__` raises something other than AttributeError."""
    module = types.ModuleType("hostile_optional")
    module.__dict__["__getattr__"] = _refuse
    return module


def deep(levels: int = 100_000) -> Any:
    """Make a list in a list in a list, and so on."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


class Node:
    """An object in a chain, which holds the next object."""

    __slots__ = ("next", "value")

    def __init__(self, value: int, following: Any = None) -> None:
        self.value = value
        self.next = following


def chain(length: int = 100_000) -> Any:
    made = None
    for number in range(length):
        made = Node(number, made)
    return made


def itself() -> Any:
    """Make a list that contains itself and a dict, which contains itself and the list."""
    made: list[Any] = []
    mapping: dict[str, Any] = {"all": made}
    mapping["self"] = mapping
    made += [made, mapping]
    return made


def crowd(count: int = 10_000_000) -> Any:
    """Make a list of lists of lists of numbers, with about `count` objects in total."""
    return [[[float(each)] for each in range(500)] for _ in range(count // 1000)]


HOSTILE: Final[dict[str, Callable[[], Any]]] = {
    "dead_proxy": _dead_proxy,
    **{f"{name}_raises": _with(name, _refuse, object) for name in _METHODS},
    **{f"{name}_raises": _with(name, property(_refuse), object) for name in _PROPERTIES},
    "__module__ is a number": _no_text,
    "list": lambda: _List([1, 2]),
    "dict": lambda: _Dict(one=1),
    "int": lambda: _Number(3),
    "str": lambda: _Text("three"),
    "array": lambda: np.zeros(3).view(_Array),
    "tensor": lambda: torch.zeros(3).as_subclass(_Tensor),
    "key": _refusing_key,
    "mock": mock.Mock,
    "magic mock": mock.MagicMock,
    "class with a metaclass": lambda: _Meta("Odd", (), {}),
    "object of such a class": lambda: object.__new__(cast("Any", _Meta("Odd", (), {}))),
    "lazy module": lazy,
    "optional module": optional,
    "deep": deep,
    "chain": chain,
    "itself": itself,
    "enum": lambda: IntEnum("Kind", "ONE TWO").ONE,  # type: ignore[attr-defined]
}
"""Makers of hostile objects, by name."""


def every() -> list[Any]:
    return [make() for make in HOSTILE.values()]


def modules() -> dict[str, Any]:
    """Make entries for `sys.modules`, by name, that are hostile or aren't modules at all."""
    return {
        "hostile_lazy": lazy(),
        "hostile_optional": optional(),
        "hostile_proxy": _dead_proxy(),
        "hostile_number": 5,
        "hostile_mock": mock.MagicMock(),
        "hostile_none": None,
    }
