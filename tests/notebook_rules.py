"""Check the rules for notebooks. Each `breaches_of_` function yields a sentence per breach."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbformat import NotebookNode
from portable import ROOT, code_cells, texts, unfit
from tag_promises import broken_promises, failed, tags

from notebooks import METADATA

TAGS = {"check", "nbval-ignore-output", "raises-exception", "solution", "starter"}

CELL_LINES = 25
FILE_BYTES = 500_000

# The most that a learner's notebook may have, so that every lesson stays short.
WORDS = 1500
CODE_LINES = 140
CELLS = 50
IMPORTS = 5  # import lines in the first code cell

_CHECK = re.compile(r"(?m)^[^#\n]*(?<!def )(?<![\w.])check\(")
_SOMEBODYS_FOLDER = re.compile(r"(?<![\w.])/(?:home|root|Users)/[\w.-]+")
_PID = re.compile(r"\bpids?(?:\(s\))?[:=]? ?\d+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_COMMENT_MARKER = re.compile(r"(?m)^\s*#+ *(?:NBVAL_|PYTEST_VALIDATE_)\w+")
_HEADING = re.compile(r"(?m)^## (.+?)\s*$")
_LINK = re.compile(r"""(?:\]\(|(?:src|href)=["'])(?![a-z]+:|#)([^)"'#\s]+)""")
_NOT_READ = re.compile(r"(?s)```.*?```|<[^>]*>|\]\([^)]*\)")
_WORD = re.compile(r"[\w'`.-]*\w[\w'`.-]*")
_CODE = re.compile(r"(?s)```.*?```|`[^`\n]*`|<[^>]*>|\]\([^)]*\)|!\[|https?://\S+")
_UNWANTED = re.compile(
    r"\b(?:simply|obviously|just|powerful|robust)\b|!|[\u2013\u2014]"
    r"|[\u2600-\u27bf\U0001f000-\U0001faff]",
    re.IGNORECASE,
)


def relative_links(cell: NotebookNode) -> list[str]:
    """Return the relative paths that a markdown cell links to or shows."""
    return _LINK.findall(cell.source) if cell.cell_type == "markdown" else []


def breaches_of_form(notebook: NotebookNode) -> Iterator[str]:
    """Check the metadata of a solved or a learner's notebook, and its cells' tags and source."""
    if notebook.metadata != METADATA:
        yield "its metadata isn't exactly the kernel's name and the language's"
    for cell in notebook.cells:
        if unknown := tags(cell) - TAGS:
            yield f"cell {cell.id} has unknown tags: {', '.join(sorted(unknown))}"
        if found := _SOMEBODYS_FOLDER.search(cell.source):
            yield f"cell {cell.id} names a folder on somebody's machine: {found[0]}"
        if str(ROOT) in cell.source:
            yield f"cell {cell.id} names the folder of this checkout: {ROOT}"
    for cell in code_cells(notebook):
        lines = cell.source.count("\n") + 1
        if not cell.source.strip():
            yield f"cell {cell.id} is empty"
        if lines > CELL_LINES:
            yield f"cell {cell.id} has {lines} lines, and may have at most {CELL_LINES}"
        if found := _COMMENT_MARKER.search(cell.source):
            yield f"cell {cell.id} shows the learner `{found[0].strip()}`: use a tag instead"
        if bool(_CHECK.search(cell.source)) != ("check" in tags(cell)):
            yield f"cell {cell.id}: a call of check() and the tag check go together"


def breaches_of_budget(learners: NotebookNode) -> Iterator[str]:
    """Check the counts of words, code lines, cells, and imports in a learner's notebook.

    Also check that its last section is `On call`.
    """
    texts = [cell.source for cell in learners.cells if cell.cell_type == "markdown"]
    cells = [cell.source.splitlines() for cell in code_cells(learners)]
    code = [line for cell in cells for line in cell if line.strip() and line.strip()[0] != "#"]
    setup = [line for line in (cells or [[]])[0] if line.startswith(("import ", "from "))]
    budgets = {
        "words": (sum(len(_WORD.findall(_NOT_READ.sub(" ", text))) for text in texts), WORDS),
        "lines of code": (len(code), CODE_LINES),
        "cells": (len(learners.cells), CELLS),
        "imports in its setup": (len(setup), IMPORTS),
    }
    for what, (count, most) in budgets.items():
        if count > most:
            yield f"it has {count} {what}, and may have at most {most}"
    headings = [each for text in texts for each in _HEADING.findall(text)]
    if headings[-1:] != ["On call"]:
        yield "its last section isn't `On call`"


def breaches_of_links(notebook: NotebookNode) -> Iterator[str]:
    """Check that links within a notebook lead to `<a>` tags, or to JupyterLab's heading anchors."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    headings = re.findall(r"(?m)^#{1,6} +(.+?) *$", text)
    anchors = {re.sub(r"[`*]", "", each).replace(" ", "-") for each in headings}
    anchors |= set(re.findall(r"""<a (?:id|name)=["']([^"']+)["']""", text))
    for anchor in sorted({*re.findall(r"\]\(#([^)\s]+)\)", text)} - anchors):
        yield f"a link leads to #{anchor}, but there's no such heading"


def breaches_of_output(twin: NotebookNode) -> Iterator[str]:
    """Check the execution counts and saved outputs of a solved notebook."""
    counts = [cell.execution_count for cell in code_cells(twin)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"its cells weren't run once each, from top to bottom: {counts}"
    yield from unfit(twin)
    for cell in code_cells(twin):
        if failed(cell.outputs) and "raises-exception" not in tags(cell):
            yield f"cell {cell.id} raised, and is not tagged raises-exception"
        if "check" in tags(cell):
            for promise in broken_promises(cell, cell.outputs, solved=True):
                yield f"cell {cell.id}: {promise}"
        for text in texts(cell):
            for pattern, what in ((_PID, "a pid"), (_ADDRESS, "an address")):
                if found := pattern.search(text):
                    yield f"the output of cell {cell.id} holds {what}: {found[0]}"


def breaches_of_structure(twin: NotebookNode) -> Iterator[str]:
    """Check the order of starter, solution, and check cells, and the tags of text cells."""
    seen: list[str] = []
    for cell in code_cells(twin):
        kinds = tags(cell) & {"starter", "solution", "check"}
        if len(kinds) > 1:
            yield f"cell {cell.id} can be only one of {', '.join(sorted(kinds))}"
        if kinds == {"solution"} and (not seen or seen[-1] == "check"):
            yield f"cell {cell.id} is a solution with no starter cell before it"
        if kinds == {"check"} and "solution" not in seen:
            yield f"cell {cell.id} checks an exercise without a solution cell"
        seen += kinds
    if seen and seen[-1] != "check":
        yield f"its last exercise ends with a {seen[-1]} cell, not with a check"
    for cell in twin.cells:
        if cell.cell_type != "code" and tags(cell) - {"solution"}:
            yield f"cell {cell.id} is text, where only the tag solution has a meaning"


def breaches_of_voice(notebook: NotebookNode) -> Iterator[str]:
    """Find words and characters that the course doesn't use, outside code, URLs, and HTML tags."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for found in _UNWANTED.finditer(_CODE.sub(" ", cell.source)):
                yield f"cell {cell.id} says {found[0]!r}"
