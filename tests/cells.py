"""What the cells of a notebook define, as in a kernel: their source can be read again."""

from __future__ import annotations

import linecache
import re
from typing import Any

from nbformat import NotebookNode
from torch.utils.data import Dataset


def source(name: str, notebook: NotebookNode) -> str:
    """The source of a cell."""
    return next(str(each.source) for each in notebook.cells if each.id == name)


def assert_on_call_is_last(notebook: NotebookNode) -> None:
    """The last two cells are its table and its code, and all links lead to a heading."""
    cells = notebook.cells
    assert [cell.id for cell in cells[-2:]] == ["on-call", "on-call-code"]
    assert cells[-2].source.startswith("## On call\n")
    headings = re.findall(r"(?m)^## (.+)$", "\n".join(cell.source for cell in cells))
    anchors = {heading.replace(" ", "-") for heading in headings}
    linked = re.findall(r"\]\(#([^)]+)\)", "\n".join(cell.source for cell in cells))
    assert linked and set(linked) <= anchors


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
