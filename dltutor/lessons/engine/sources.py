"""Compare source code by its bytecode instructions, and show it in a notebook.

Comments, layout, docstrings, and type hints don't count, because they leave no instructions behind.
"""

from __future__ import annotations

import dis
import inspect
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any, Final

# Ignore opcodes that can differ although the source is the same. For example, Python compiles
# `os.open()` differently if the file imports `os`, and a longer jump needs an EXTENDED_ARG.
_CALL_OPCODES: Final = {"PUSH_NULL", "PRECALL", "EXTENDED_ARG"}
# Compare only the flags for `*args` and `**kwargs`. Other flags can differ for the same source,
# because our modules import annotations from `__future__`, and a notebook's cells don't.
_FLAGS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def same_class(one: type, other: type) -> bool:
    """Return whether two classes have the same members, whatever their names and bases are."""
    return one is other or _members(one) == _members(other)


def same_function(one: object, other: object) -> bool:
    """Return whether two objects are one object, or functions with the same parameters and body."""
    return one is other or (isinstance(one, FunctionType) and _member(one) == _member(other))


def _members(thing: type) -> dict[str, Any]:
    # Leave out what Python adds to every class, such as `__module__`, and the `_abc_` names that a
    # base class such as IterableDataset adds. Keep methods such as `__init__`.
    return {
        name: _member(value)
        for name, value in vars(thing).items()
        if not name.startswith(("__", "_abc_"))
        or (isinstance(value, FunctionType) and not name.startswith("__annotate"))
    }


def _member(value: Any) -> Any:
    kinds = [type(value)]
    # Unwrap a static or class method, a property, a cached property, or a function with a cache.
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        value = getattr(value, attribute, value)
        kinds.append(type(value))
    if not isinstance(value, FunctionType):
        return kinds, repr(value)
    code = value.__code__
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    flags = code.co_flags & _FLAGS
    return kinds, repr(value.__defaults__), repr(value.__kwdefaults__), counts, flags, _steps(code)


def _steps(code: CodeType) -> tuple[Any, ...]:
    return tuple(
        ("LOAD_ATTR" if step.opname == "LOAD_METHOD" else step.opname, _argument(step))
        for step in dis.get_instructions(code)
        if step.opname not in _CALL_OPCODES
    )


def _argument(step: dis.Instruction) -> Any:
    if isinstance(step.argval, CodeType):
        return _steps(step.argval)
    # Ignore a jump's target, because it depends on the instructions that `_steps` leaves out.
    return "" if step.opcode in dis.hasjrel else repr(step.argval)


def show_source(*things: Any) -> Any:
    """Return the source of classes and functions as Markdown for a notebook."""
    from IPython.display import Markdown  # imported here, because only notebooks need IPython

    text = "\n".join(f"```python\n{dedent(inspect.getsource(each))}```" for each in things)
    return Markdown(text)
