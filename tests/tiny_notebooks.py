"""Make tiny notebooks, to test which mistakes the machinery behind the lessons catches."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks import METADATA


def code(name: str, source: str, *tags: str) -> NotebookNode:
    return new_code_cell(source, id=name, metadata={"tags": list(tags)} if tags else {})


def lesson(*cells: NotebookNode) -> NotebookNode:
    return new_notebook(cells=list(cells), metadata=METADATA)


def exercise(*, starter: str = "answer = 1", solution: str = "answer = 2") -> list[NotebookNode]:
    return [
        code(
            "instruments",
            "def check(name, answer):\n"
            "    print('Correct. It is 2.' if answer == 2 else 'Not yet. It is another number.')",
        ),
        code("starter", starter, "starter"),
        code("solution", solution, "solution"),
        code("check", "check('99.number', answer)", "check"),
    ]


def good_lesson() -> NotebookNode:
    """Make a lesson with text, several kinds of output, a failure, and an exercise."""
    return lesson(
        new_markdown_cell("# A tiny lesson", id="title"),
        code(
            "written-to-the-descriptor",
            "import os, time\nos.write(1, b'seen by a learner, so seen here\\n')\ntime.sleep(0.5)",
        ),
        code(
            "differs-in-every-run",
            "print(f'pid {os.getpid()}, {time.time()} s, {os.environ[\"DLTUTOR_HOME\"]}/a.jpg')\n"
            "import multiprocessing.queues\n"
            "print(f'File \"{multiprocessing.queues.__file__}\", line {os.getpid()}')\n"
            "object()",
        ),
        code("hidden-by-a-semicolon", "1 + 1;"),
        code("fails", "raise OSError('a promised failure')", "raises-exception"),
        *exercise(),
    )


def save(notebook: NotebookNode, folder: Path, name: str = "00-tiny.ipynb") -> Path:
    path = folder / "solutions" / name
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return path


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == name)
