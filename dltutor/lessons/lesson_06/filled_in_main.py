"""What main has filled and a new interpreter finds empty: globals, and attributes of a class."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any


def filled_in_main(mine: type) -> str:
    """Say which name of a class or of its module is None when it is imported anew, and not here.

    Args:
        mine: The class, from a file.

    Returns:
        A sentence or two, or "" where there is no such name.
    """
    for where, ours, anew in _namespaces(mine):
        for name, value in ours.items():
            if anew.get(name, value) is None and value is not None:
                return (
                    f"`{name}` is a global of {where}: main has filled it, and a new interpreter "
                    f"imports it as {anew[name]!r}. Only what is in the dataset travels."
                )
    return ""


def _namespaces(mine: type) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    module = sys.modules[mine.__module__]
    spec = module.__spec__
    assert spec is not None and spec.loader is not None
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    yield "your file", vars(module), vars(anew)
    yield "your class", dict(vars(mine)), dict(vars(getattr(anew, mine.__name__, mine)))
