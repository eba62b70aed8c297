"""Put exit codes and exceptions into words, and remove parts of text that differ between runs."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Final

_KEPT: Final = 64_000  # the most bytes to read from the end of a file

# Match the note that pickle adds, from Python 3.14 on, at the end of its error messages.
_NOTE: Final = re.compile(r"\nwhen serializing [^\n]+")


def signal_name(exitcode: int | None) -> str | None:
    """Return the signal that killed a process, such as "SIGKILL", or None if no signal did."""
    if exitcode is None or exitcode >= 0:
        return None
    try:
        return signal.Signals(-exitcode).name
    except ValueError:  # most real-time signals have no name in Python
        return f"signal {-exitcode}"


def fate(exitcode: int | None) -> str:
    """Return how a process ended, such as "killed by SIGKILL (exit code -9)" or "still running"."""
    if exitcode is None:
        return "still running"
    if name := signal_name(exitcode):
        return f"killed by {name} (exit code {exitcode})"
    return f"ended with exit code {exitcode}"


def said(kind: str, message: str) -> str:
    """Return an exception's type and message, such as "ValueError: no such file".

    If a worker raised the exception, return the type and message of the worker's exception, without
    pickle's notes, which `notes_in` returns.
    """
    text = _raised_in_worker(message)
    if text is None:
        return f"{kind}: {message}" if message else kind
    return _NOTE.sub("", text)


def notes_in(message: str) -> tuple[str, ...]:
    """Return pickle's notes on where pickling failed, if the message is from a worker's error."""
    return tuple(note.strip() for note in _NOTE.findall(_raised_in_worker(message) or ""))


def _raised_in_worker(message: str) -> str | None:
    _, wrapped, original = message.partition("\nOriginal Traceback")
    if not wrapped:
        return None
    # The message begins at the first line that isn't indented, after the last traceback's frames.
    # The message's later lines may be indented.
    lines = original.rpartition("(most recent call last):\n")[2].rstrip().splitlines()
    start = next((i for i, line in enumerate(lines) if not line.startswith(" ")), -1)
    return "\n".join(lines[start:]).strip()


def without_colors(text: str) -> str:
    """Return text without escape sequences, such as those that color it.

    Python 3.13 and later color tracebacks on a terminal, and under FORCE_COLOR, which a notebook
    sets for the processes that it starts.
    """
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text)


def end_of_file(path: Path) -> str:
    """Return the end of a file, at most 64,000 bytes, without colors, or "" if we can't read it."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _KEPT))
            return without_colors(file.read().decode(errors="replace").replace("\0", ""))
    except OSError:
        return ""


def tidy(text: str) -> str:
    """Return text with short paths, and without pids and addresses, which differ between runs."""
    text = re.sub(r"\s*\(pid(\(s\))?[ \d,]+\)", "", text)
    text = re.sub(r"\b(pid(?:\(s\))?) [\d, ]*\d", r"\1 ...", text)
    text = re.sub(r"/torch_\d+_\d+_\d+", "/torch_...", text)
    text = re.sub(r" (?:at )?0x[0-9a-f]{6,}", "", text)
    return shorten_paths(text)


def shorten_paths(text: str) -> str:
    """Return text with long absolute paths cut to a part that's usually the same on every machine.

    The path of a notebook cell becomes "your cell", and a library's file keeps its path from the
    library's name on. Any other path keeps its last two parts.
    """
    # Match only at the start of a word, so that a megabyte of text without blanks isn't slow.
    text = re.sub(r"(?<![^\s\"'(])[^\s\"'(]*/ipykernel_\d+/\d+\.py", "your cell", text)
    text = re.sub(r"/[^\s\"'(]*/(?:site|dist)-packages/", "", text)
    text = re.sub(r"/[^\s\"'(]*/lib/python3\.\d+/", "", text)
    return re.sub(r"(?<![\w.:/])/(?:[^\s\"'/()]+/)+([^\s\"'/()]+/[^\s\"'/()]+)", r".../\1", text)
