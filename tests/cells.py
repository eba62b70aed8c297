"""Run a notebook's cells without a kernel.

`inspect` can still read the source of the classes and functions that the cells define.
"""

from __future__ import annotations

import linecache
import re
from typing import Any

from nbformat import NotebookNode
from torch.utils.data import Dataset

from notebooks import NOTEBOOKS, read


def source(name: str, notebook: NotebookNode) -> str:
    """Return the source of the cell with this id."""
    return next(str(each.source) for each in notebook.cells if each.id == name)


def to_copy(name: str, notebook: NotebookNode, language: str = "python") -> list[str]:
    r"""Return the blocks of code in the text cell with this id.

    Args:
        name: The cell's id.
        notebook: The notebook.
        language: A regular expression for the blocks' language, such as r"\w+" for any language.
    """
    return re.findall(rf"(?s)```{language}\n(.*?)```", source(name, notebook))


def run_copied(lesson: str, cell: str, more: str = "", **known: Any) -> dict[str, Any]:
    """Run the first block of Python in a text cell of a lesson's notebook, and return its globals.

    Args:
        lesson: The lesson's number, such as "05".
        cell: The cell's id.
        more: Code to run after the block.
        known: The values of names that the block uses without defining them.
    """
    [path] = NOTEBOOKS.glob(f"{lesson}-*.ipynb")
    exec(to_copy(cell, read(path))[0] + more, known)
    return known


def define(code: str, name: str = "1", **known: Any) -> dict[str, Any]:
    """Run code under a file name like ipykernel's, and return its globals, by name.

    The code doesn't have to import `Dataset`.

    Args:
        code: The cell's source.
        name: The name of the cell's file, without ".py" (default "1").
        known: The values of names that earlier cells have defined.
    """
    file = f"/tmp/ipykernel_1/{name}.py"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    defined: dict[str, Any] = {"Dataset": Dataset, **known}
    exec(compile(code, file, "exec", dont_inherit=True), defined)
    return defined


def answer_in(notebook: NotebookNode, *cells: str, **known: Any) -> dict[str, Any]:
    """Run the cells with these ids, in order, and return their globals, by name.

    `known` has the globals that the cells start with.
    """
    defined = dict(known)
    for name in cells:
        defined = define(source(name, notebook), name, **defined)
    return defined
