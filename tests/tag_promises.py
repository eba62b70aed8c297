"""Check that a cell's outputs keep the promises of the cell's tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

LABELS = ("Correct", "Not yet", "Not attempted", "Error in your code", "Could not check here")
UNSOLVED = {"Not yet", "Not attempted"}

# A label begins a line, or follows the name of its exercise.
_LABEL = re.compile(rf"(?m)^\s*(?:[\w.-]+: )?({'|'.join(LABELS)})\b")


def tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def failed(outputs: Iterable[NotebookNode]) -> bool:
    """Return whether a cell's outputs contain an error."""
    return any(output.output_type == "error" for output in outputs)


def labels(outputs: Iterable[NotebookNode]) -> list[str]:
    """Return the outcomes of a cell's checks, in order."""
    found = []
    for output in outputs:
        text = output.get("text", "") or output.get("data", {}).get("text/plain", "")
        found += _LABEL.findall(text)
    return found


def broken_promises(
    cell: NotebookNode, outputs: Iterable[NotebookNode], *, solved: bool
) -> Iterator[str]:
    """Yield a sentence for each promise of a cell's tags that the outputs break.

    Args:
        cell: The notebook cell, which has the tags.
        outputs: The cell's outputs, saved or from a new run.
        solved: Whether the notebook is a solved twin, and not a learner's file.
    """
    outputs = list(outputs)
    if "raises-exception" in tags(cell) and not failed(outputs):
        yield "it is tagged raises-exception and did not raise"
    if "check" in tags(cell):
        found = labels(outputs)
        if not found:
            yield "it is tagged check and shows no outcome"
        elif solved and set(found) != {"Correct"}:
            yield f"its solution is not Correct: {', '.join(found)}"
        elif not solved and not set(found) <= UNSOLVED:
            yield f"its untouched starter must be Not yet or Not attempted: {', '.join(found)}"
