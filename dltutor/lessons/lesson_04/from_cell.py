"""FromCell: a dataset whose class stands in a notebook cell, for a worker that is spawned.

A spawned worker imports the classes that it needs, and a cell cannot be imported: lesson 06 shows
what happens then. So that a check can run an answer under spawn, its code travels with it, and
its attributes travel as they would from a module. A global does not: a module would make it anew.
"""

from __future__ import annotations

import builtins
import dis
import marshal
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from torch.utils.data import Dataset

_CONSTANTS: Final = (bool, int, float, str, bytes, tuple, type(None))
_PYTHONS_OWN: Final = {"__dict__", "__weakref__", "__module__", "__orig_bases__", "__parameters__"}


class LeftBehind(Exception):
    """The code reads a name that no spawned worker would get; the argument is the name."""


class FromCell(Dataset[Any]):
    """The dataset, to be handed to a loader whose workers are spawned.

    Args:
        dataset: An object of a class from a cell. One whose class can be imported needs no help.

    Raises:
        LeftBehind: Its code reads a global that is no module, function, class or constant.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._code = _pack(type(dataset), ()) if _from_cell(type(dataset)) else None

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]

    def __reduce__(self) -> tuple[Any, ...]:
        if self._code is None:
            return FromCell, (self._dataset,)
        return _unpack, (self._code, vars(self._dataset))


@dataclass(frozen=True)
class _Module:
    name: str


@dataclass(frozen=True)
class _Class:
    name: str
    bases: tuple[Any, ...]
    body: dict[str, Any]


@dataclass(frozen=True)
class _Function:
    code: bytes
    defaults: tuple[Any, Any]
    reads: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Wrapped:
    kind: type
    function: Any


def _from_cell(thing: Any) -> bool:
    return isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__"


def _pack(thing: Any, within: tuple[Any, ...]) -> Any:
    if isinstance(thing, ModuleType):
        return _Module(thing.__name__)
    if isinstance(thing, (staticmethod, classmethod)):
        return _Wrapped(type(thing), _pack(thing.__func__, within))
    if isinstance(thing, property):
        return _Wrapped(property, _pack(thing.fget, within))
    if not _from_cell(thing):
        return thing
    inside = (*within, thing)
    if isinstance(thing, type):
        own = {name: value for name, value in vars(thing).items() if name not in _PYTHONS_OWN}
        return _Class(
            thing.__name__,
            tuple(_pack(base, inside) for base in thing.__bases__),
            {name: _pack(value, inside) for name, value in own.items()},
        )
    if unknown := set(thing.__code__.co_freevars) - {"__class__"}:
        raise LeftBehind(min(unknown))
    reads = {}
    for name in sorted({*_globals_of(thing.__code__)} & thing.__globals__.keys()):
        value = thing.__globals__[name]
        if not (isinstance(value, (ModuleType, *_CONSTANTS)) or callable(value)):
            raise LeftBehind(name)
        if not any(value is each for each in inside):  # a class may name itself
            reads[name] = _pack(value, inside)
    defaults = thing.__defaults__, thing.__kwdefaults__
    return _Function(marshal.dumps(thing.__code__), defaults, reads)


def _globals_of(code: CodeType) -> Iterator[str]:
    # Not `co_names`: it holds the names of attributes as well.
    for step in dis.get_instructions(code):
        if step.opname.endswith(("_GLOBAL", "_NAME")):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _unpack(packed: _Class, attributes: dict[str, Any]) -> FromCell:
    cls = _build(packed, {"__builtins__": builtins, "__name__": "cell"}, CellType())
    dataset = cls.__new__(cls)
    dataset.__dict__.update(attributes)
    return FromCell(dataset)


def _build(packed: Any, names: dict[str, Any], own: CellType) -> Any:
    # names: the globals of all that is built; own: what `super()` looks into.
    if isinstance(packed, _Module):
        return import_module(packed.name)
    if isinstance(packed, _Wrapped):
        return packed.kind(_build(packed.function, names, own))
    if isinstance(packed, _Class):
        own = CellType()
        bases = tuple(_build(base, names, own) for base in packed.bases)
        body = {name: _build(value, names, own) for name, value in packed.body.items()}
        names[packed.name] = own.cell_contents = type(packed.name, bases, body)
        return own.cell_contents
    if not isinstance(packed, _Function):
        return packed
    code = marshal.loads(packed.code)
    for name, value in packed.reads.items():
        names[name] = _build(value, names, own)
    closure = tuple(own for _ in code.co_freevars)
    function = FunctionType(code, names, code.co_name, packed.defaults[0], closure)
    function.__kwdefaults__ = packed.defaults[1]
    return function
