"""What the cells of a notebook define, as in a kernel: their source can be read again."""

from __future__ import annotations

import linecache
from typing import Any

from nbformat import NotebookNode
from torch.utils.data import Dataset


def source(name: str, notebook: NotebookNode) -> str:
    """The source of a cell."""
    return next(str(each.source) for each in notebook.cells if each.id == name)


def define(code: str, name: str = "1", **known: Any) -> dict[str, Any]:
    """Run code as a cell of a kernel, and return what is defined then.

    Args:
        code: The source.
        name: A name for the cell's file.
        known: What is defined before.
    """
    file = f"/tmp/ipykernel_1/{name}.py"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    defined: dict[str, Any] = {"Dataset": Dataset, **known}
    exec(compile(code, file, "exec"), defined)
    return defined


def answer_in(notebook: NotebookNode, *cells: str, **known: Any) -> dict[str, Any]:
    """What these cells of a notebook define, one after the other."""
    defined = dict(known)
    for name in cells:
        defined = define(source(name, notebook), name, **defined)
    return defined
