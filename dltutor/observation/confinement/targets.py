"""What `confine` can run in a child interpreter: a function that makes a loader, or a script."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TO_A_FILE: Final = (
    "write it to a file, with `%%writefile my_loader.py` at the top of its cell, "
    "then `from my_loader import {name}`"
)


@dataclass(frozen=True)
class Script:
    """A Python file, run as `python FILE` runs it."""

    path: Path

    def argv(self) -> list[str]:
        """The command line that runs it."""
        return [sys.executable, os.fspath(self.path)]


@dataclass(frozen=True)
class Function:
    """A function that returns a DataLoader or a Case, by name, and its keyword arguments."""

    module: str
    name: str
    options: Mapping[str, Any]

    def leave_in(self, folder: Path, deadline: float, put_forward: int) -> None:
        """Write down for the child what to call and observe.

        Args:
            folder: Where to.
            deadline: Seconds for `observe`.
            put_forward: What to add to the workers' oom_score_adj.
        """
        call = self.module, self.name, dict(self.options), deadline, put_forward
        try:
            pickled = pickle.dumps(call)
        except Exception as error:
            raise TypeError(f"the options of {self.name} must be picklable: {error}") from error
        (folder / "function").write_bytes(pickled)


def read_target(target: object, options: Mapping[str, Any]) -> Script | Function:
    """Find out what a target is, and whether a new interpreter could run it.

    Args:
        target: As given to `confine`.
        options: Keyword arguments for it.

    Raises:
        TypeError: It is nothing that could be run, or does not take these options.
        ValueError: A new interpreter could not import it.
        FileNotFoundError: There is no such script.
    """
    if isinstance(target, (str, Path)):
        return _script(Path(target), options)
    if not callable(target) or isinstance(target, type):
        raise TypeError(
            "target must be a function that returns a DataLoader or a Case, such as "
            "dltutor.failures.corrupt_images.broken (without parentheses), or the path of a "
            f"script, got {type(target).__name__}: {target!r:.60}"
        )
    module, name = _importable(target)
    try:
        inspect.signature(target).bind(**options)
    except TypeError as error:
        raise TypeError(f"{name}() cannot be called with these options: {error}") from None
    return Function(module, name, options)


def _script(path: Path, options: Mapping[str, Any]) -> Script:
    if path.suffix != ".py":
        raise ValueError(
            f'target must be a function or the path of a script that ends in ".py", got {path}'
        )
    if not path.is_file():
        raise FileNotFoundError(f"target must be a script that exists, got {path}")
    if options:
        raise TypeError(f"a script takes no options, got {', '.join(options)}")
    return Script(path.absolute())


def _importable(target: Callable[..., Any]) -> tuple[str, str]:
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    if module == "__main__":
        raise ValueError(
            f"target must be a function that a new interpreter can import, got {name} of your "
            f"notebook (__main__): {_TO_A_FILE.format(name=name)}"
        )
    found: Any = None
    if module and name:
        with suppress(ImportError):
            found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part, None)
    if found is not target:
        raise ValueError(
            "target must be a function that a new interpreter can import by its name, got "
            f"{target!r:.60}: define it at the top level of a file"
        )
    return str(module), name
