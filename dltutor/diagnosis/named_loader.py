"""Find the loader that the command line names, such as `train.py:loader`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Final

TARGET: Final = "FILE:LOADER"
TARGET_HELP: Final = (
    "a DataLoader, or a function without arguments that returns one, such as train.py:loader or "
    "package.module:make_loader"
)


class NoLoader(Exception):
    """The named loader can't be found or made. The message says why."""


def find(target: str) -> Any:
    """Return the loader, or the function that makes one, from a file or a module.

    Args:
        target: `FILE.py:NAME` or `package.module:NAME`. The file's folder or, for a module, the
            current folder becomes the first entry in `sys.path`.

    Raises:
        NoLoader: The target names no loader, or importing it failed.
    """
    # Import `check_loader` only here, because its module imports torch, which is slow to import and
    # which most commands don't need.
    from dltutor.observation.loaders import check_loader

    found = attribute(target)
    if callable(found) and not isinstance(found, type):
        return found
    try:
        check_loader(found)
    except TypeError:
        raise NoLoader(
            f"{target.rpartition(':')[2]} must be a DataLoader or a function that returns one, got "
            f"{type(found).__name__}"
        ) from None
    return found


def attribute(target: str) -> Any:
    """Return the object that a name in a file or a module refers to.

    Args:
        target: `FILE.py:NAME` or `package.module:NAME`, as in `find`.

    Raises:
        NoLoader: There's no such name, or importing the file or module failed.
    """
    from torch.utils.data import DataLoader

    where, colon, name = target.rpartition(":")
    if not (colon and where and name):
        raise NoLoader(
            "FILE:LOADER must name a file or module and a loader in it, such as train.py:loader, "
            f"got {target!r}"
        )
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else _by_name(where)
    except NoLoader:
        raise
    except (Exception, SystemExit) as error:
        raise NoLoader(f"importing {where} raised {_said(error)}") from None
    if not hasattr(module, name):
        loaders = [key for key, each in vars(module).items() if isinstance(each, DataLoader)]
        has = f"it has {', '.join(loaders)}" if loaders else "it has no DataLoader in its globals"
        raise NoLoader(f"{where} has no {name!r}: {has}")
    return getattr(module, name)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise NoLoader(f"there's no file {str(path)!r}")
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    # Spawned workers import the module by this name, so use the file's name unless it's taken.
    name = path.stem if path.stem not in sys.modules else f"own_{path.stem}"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _by_name(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoLoader(
                f"there's no module {name!r} here. If you meant a file, write {name}.py"
            ) from None
        raise


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def makes_loaders(found: Any) -> bool:
    """Return whether an object looks like a function that makes a loader, not like a loader.

    Such an object can be called, isn't a class, and can't be iterated.
    """
    return callable(found) and not isinstance(found, type) and not hasattr(found, "__iter__")


def seconds(text: str) -> float:
    """Parse a number of seconds on the command line.

    Raises:
        argparse.ArgumentTypeError: The text isn't a positive number of at most 86400.
    """
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(
            f"must be a positive number of seconds, at most 86400, got {text!r}"
        )
    return number
