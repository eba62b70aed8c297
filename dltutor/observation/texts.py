"""Words for exit codes and exceptions, and text without what differs from run to run."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Final

_KEPT: Final = 64_000  # bytes of a file, the last ones

# What pickle adds to its errors from Python 3.14 on. In a text it stands below the error itself.
_NOTE: Final = re.compile(r"\nwhen serializing [^\n]+")


def signal_name(exitcode: int | None) -> str | None:
    """The name of the signal that an exit code tells of, such as SIGKILL, or None."""
    if exitcode is None or exitcode >= 0:
        return None
    try:
        return signal.Signals(-exitcode).name
    except ValueError:  # real-time signals have no name in Python
        return f"signal {-exitcode}"


def fate(exitcode: int | None) -> str:
    """What became of a process, in words.

    Args:
        exitcode: Its exit code, or None while it runs.
    """
    if exitcode is None:
        return "still running"
    if name := signal_name(exitcode):
        return f"killed by {name} (exit code {exitcode})"
    return f"ended with exit code {exitcode}"


def said(kind: str, message: str) -> str:
    """An exception as the end of a traceback has it: its type and text, the worker's own if it
    was raised there. pickle's notes are left out: `notes_in` has them.
    """
    text = _raised_in_worker(message)
    if text is None:
        return f"{kind}: {message}" if message else kind
    return _NOTE.sub("", text)


def notes_in(message: str) -> tuple[str, ...]:
    """Notes of pickle's in what torch made of an error in a worker: where in the object it was."""
    return tuple(note.strip() for note in _NOTE.findall(_raised_in_worker(message) or ""))


def _raised_in_worker(message: str) -> str | None:
    _, wrapped, original = message.partition("\nOriginal Traceback")
    if not wrapped:
        return None
    # The text follows the indented lines of the last traceback, and may be indented itself.
    lines = original.rpartition("(most recent call last):\n")[2].rstrip().splitlines()
    start = next((i for i, line in enumerate(lines) if not line.startswith(" ")), -1)
    return "\n".join(lines[start:]).strip()


def without_colors(text: str) -> str:
    """Text without the escape sequences that color it, as Python 3.13 and later color tracebacks.

    They do so at a terminal, and under FORCE_COLOR, which a Jupyter kernel sets for what it starts.
    """
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text)


def end_of_file(path: Path) -> str:
    """The end of what processes wrote to a file, without colors; "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _KEPT))
            return without_colors(file.read().decode(errors="replace").replace("\0", ""))
    except OSError:
        return ""


def tidy(text: str) -> str:
    """Text without what differs from run to run: pids, addresses, the way to a file."""
    text = re.sub(r"\s*\(pid(\(s\))?[ \d,]+\)", "", text)
    text = re.sub(r"\b(pid(?:\(s\))?) [\d, ]*\d", r"\1 ...", text)
    text = re.sub(r"/torch_\d+_\d+_\d+", "/torch_...", text)
    text = re.sub(r" (?:at )?0x[0-9a-f]{6,}", "", text)
    return shorten_paths(text)


def shorten_paths(text: str) -> str:
    """Text with each absolute path cut to what does not depend on the machine."""
    # From the start of a word only: a text of a megabyte without a blank takes no longer for it.
    text = re.sub(r"(?<![^\s\"'(])[^\s\"'(]*/ipykernel_\d+/\d+\.py", "your cell", text)
    text = re.sub(r"/[^\s\"'(]*/(?:site|dist)-packages/", "", text)
    text = re.sub(r"/[^\s\"'(]*/lib/python3\.\d+/", "", text)
    return re.sub(r"(?<![\w.:/])/(?:[^\s\"'/()]+/)+([^\s\"'/()]+/[^\s\"'/()]+)", r".../\1", text)
