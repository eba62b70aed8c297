"""Shorten paths in saved outputs, hide pids and addresses, and find what still names a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent

# Patterns for parts of an output that differ between runs and teach nothing. A path keeps its end,
# and a pid or an address becomes N. `tests/nbval_sanitize.cfg` evens out these and others.
SHORTER = tuple(
    (re.compile(pattern), short)
    for pattern, short in (
        (r"[^\s\"'<>;()]*/ipykernel_\d+/\d+\.py", "/tmp/ipykernel_N/N.py"),
        (r"/(dltutor-|tmp)[a-z0-9_]{8}\b", r"/\1N"),  # a folder from tempfile.mkdtemp
        # A quoted path may contain spaces.
        (r"(?<=[\"'])[^\"'\n]*/((?:site|dist)-packages/)", r".../\1"),
        (r"~?/[^\s\"'<>;()\x1b]*/((?:site|dist)-packages/)", r".../\1"),
        (r"(?<=[\"'])[^\"'\n]*/(lib/python3\.\d+/)", r".../\1"),
        (r"~?/[^\s\"'<>;()\x1b]*/(lib/python3\.\d+/)", r".../\1"),
        (re.escape(f"{ROOT}/"), ".../"),
        (r"\b(pid\(s\) )\d+(?:, \d+)*", r"\1N"),
        (r"\b(pids?[:=]? ?)\d+", r"\1N"),
        (r"\b0x[0-9a-f]{6,16}\b", "0xN"),
    )
)

# Match an absolute path outside the folders that are the same everywhere. Relative paths and URLs
# don't match, because they have something before the slash.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/~$*<>-])/(?!dev/|proc/|sys/|tmp/ipykernel_N|tmp/(?:dltutor-|tmp)N)(?:[\w.@+-]+/)+[\w.@+-]+"
)
WORKER_COUNT_WARNING = "This DataLoader will create"


def shorten(text: str, home: str, temporary: str) -> str:
    """Shorten the paths in an output, and replace pids and memory addresses with N.

    Args:
        text: One string of a cell's output.
        home: The run's DLTUTOR_HOME folder, to replace with "DLTUTOR_HOME".
        temporary: The run's TMPDIR folder, to replace with "/tmp".
    """
    text = text.replace(home, "DLTUTOR_HOME").replace(temporary, "/tmp")
    for pattern, short in SHORTER:
        text = pattern.sub(short, text)
    return text


def shorten_outputs(notebook: NotebookNode, home: str, temporary: str) -> None:
    """Apply `shorten` to every string in a notebook's outputs, except images."""

    def short(value: object) -> object:
        return shorten(value, home, temporary) if isinstance(value, str) else value

    for cell in code_cells(notebook):
        for output in cell.outputs:
            for key in output.keys() & {"text", "evalue"}:
                output[key] = short(output[key])
            if "traceback" in output:
                output.traceback = [short(line) for line in output.traceback]
            for kind in output.get("data", {}):
                if not kind.startswith("image/"):
                    output.data[kind] = short(output.data[kind])


def unfit(notebook: NotebookNode) -> Iterator[str]:
    """Yield a sentence for each output that depends on this machine.

    Also yield one for each cell that should have raised an exception but didn't.
    """
    for cell in code_cells(notebook):
        failed = any(output.output_type == "error" for output in cell.outputs)
        if "raises-exception" in cell.metadata.get("tags", ()) and not failed:
            yield f"cell {cell.id} is tagged raises-exception and did not raise"
        for text in texts(cell):
            if path := MACHINE_PATH.search(text):
                yield f"the output of cell {cell.id} has a path on this machine: {path[0]}"
            if WORKER_COUNT_WARNING in text:
                yield (
                    f"the output of cell {cell.id} has torch's warning about the number of workers,"
                    " which depends on the machine: use 2 workers, or filter it"
                )


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return a notebook's code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell: NotebookNode) -> Iterator[str]:
    """Yield every string in a cell's saved outputs: streams, errors, and data except images."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield from (output.evalue, *output.traceback)
        else:
            for kind, value in output.data.items():
                if not kind.startswith("image/"):
                    yield value if isinstance(value, str) else repr(value)
