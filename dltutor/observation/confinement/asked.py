"""Read the arguments for `confine`: limits as people write them, and the target to run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kKMGT]?)(?:i?B)?")
_POWERS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}  # powers of 1024
_FEWEST_FILES: Final = 16  # the fewest descriptors with which the interpreter and torch can start
_TO_A_FILE: Final = (
    "write it to a file, with `%%writefile my_loader.py` at the top of its cell, "
    "then `from my_loader import {name}`"
)


def read_size(name: str, value: object) -> int | None:
    """Return a limit in bytes, from a number or a string such as "300M", or None if given None.

    Raises:
        ValueError: The value isn't a size, or it's less than 1 MB, or 2**60 bytes or more.
    """
    if value is None:
        return None
    count = 0
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    elif isinstance(value, str) and (found := _SIZE.fullmatch(value.strip())):
        count = int(float(found[1]) * 1024 ** _POWERS[found[2]])
    if not 1 << 20 <= count < 1 << 60:
        accepted = 'bytes, as a number or as a string such as "300M" or "1G", 1 MB or more'
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return count


def read_open_files(value: object) -> int | None:
    """Return a limit on descriptors, or None if there is no limit.

    Raises:
        ValueError: The value isn't a whole number, or it's too small for an interpreter to start.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < _FEWEST_FILES:
        accepted = f"a whole number of {_FEWEST_FILES} or more"
        raise ValueError(f"open_files must be {accepted}, got {value!r}")
    return value


def read_target(target: object, options: Mapping[str, Any]) -> Path | str:
    """Return a script's path, or a function as "module:name", for a new interpreter to run.

    Raises:
        TypeError: The target is neither a script nor a function, or doesn't take these options.
        ValueError: A new interpreter couldn't import the target, or a script isn't a `.py` file.
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
    name = _importable(target)
    try:
        inspect.signature(target).bind(**options)
    except TypeError as error:
        called = name.partition(":")[2]
        raise TypeError(f"{called}() can't be called with these options: {error}") from None
    return name


def _script(path: Path, options: Mapping[str, Any]) -> Path:
    if path.suffix != ".py":
        raise ValueError(
            f'target must be a function or the path of a script that ends in ".py", got {path}'
        )
    if not path.is_file():
        raise FileNotFoundError(f"target must be a script that exists, got {path}")
    if options:
        raise TypeError(f"a script takes no options, got {', '.join(options)}")
    return path.absolute()


def _importable(target: Callable[..., Any]) -> str:
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    if module == "__main__":
        raise ValueError(
            f"target must be a function that a new interpreter can import, got {name} from your "
            f"notebook (__main__): {_TO_A_FILE.format(name=name)}"
        )
    with suppress(ImportError, AttributeError, ValueError):
        if resolve_name(f"{module}:{name}") is target:
            return f"{module}:{name}"
    raise ValueError(
        "target must be a function that a new interpreter can import by its name, got "
        f"{target!r:.60}: define it at the top level of a file"
    )
