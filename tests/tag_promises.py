"""What the tags of a cell promise about its outputs, and whether they keep it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

LABELS = ("Correct", "Not yet", "Not attempted", "Error in your code", "Could not check here")
UNSOLVED = {"Not yet", "Not attempted"}

# A label opens a line, perhaps after the name of its exercise.
_LABEL = re.compile(rf"(?m)^\s*(?:[\w.-]+: )?({'|'.join(LABELS)})\b")


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", ()))


def failed(outputs: Iterable[NotebookNode]) -> bool:
    """Whether a cell's outputs hold an error."""
    return any(output.output_type == "error" for output in outputs)


def labels(outputs: Iterable[NotebookNode]) -> list[str]:
    """The outcomes that a cell's checks came to, in order."""
    found = []
    for output in outputs:
        text = output.get("text", "") or output.get("data", {}).get("text/plain", "")
        found += _LABEL.findall(text)
    return found


def broken_promises(
    cell: NotebookNode, outputs: Iterable[NotebookNode], *, solved: bool
) -> Iterator[str]:
    """What a cell's tags promise and its outputs lack, in a twin (solved) or a learner's file."""
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
