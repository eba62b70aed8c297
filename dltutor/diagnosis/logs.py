"""Read a log from a file, a pipe, or the command line, and clean it up for searching."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

# Keep both ends of a log, because the end says how a run ended, and the beginning has warnings.
HEAD: Final = 256 * 1024  # bytes
TAIL: Final = 2 * 1024 * 1024

_PIECE: Final = 1024 * 1024

# Match one word with a slash, or a name that ends like a log file's. An error message hardly ever
# matches, because it has spaces around a path, or colons or quotes.
_PATH: Final = re.compile(
    r"(?:[A-Za-z]:)?(?:[^\s:'\"]*[/\\][^\s:'\"]*|[^\n:'\"]+\.(?:err|log|out|txt))"
)


class NotReadable(Exception):
    """A log can't be read. The message says why."""


def read_log(words: Sequence[str]) -> str:
    """Return the log that a command's arguments name.

    Args:
        words: The arguments. If there are none, or only "-", the log is standard input. If the only
            argument names an existing file, the log is that file. Otherwise, the arguments are the
            log. If the only one looks like a path, also print that there's no such file.

    Returns:
        The log. From a long file or standard input, only the first 256 kB and the last 2 MB.

    Raises:
        NotReadable: The argument names a directory, or the log can't be opened or isn't text.
    """
    if list(words) in ([], ["-"]):
        if sys.stdin.isatty():
            print("Paste the message, then press Ctrl-D on an empty line.", file=sys.stderr)
        return _text(_ends(sys.stdin.buffer), "standard input")
    if len(words) == 1 and os.path.exists(words[0]):
        path = Path(words[0])
        if path.is_dir():
            raise NotReadable(f"FILE must be a log, got the directory {path}. Name a file in it")
        try:
            with path.open("rb") as file:
                return _text(_ends(file), str(path))
        except OSError as error:
            raise NotReadable(f"{path} can't be read: {error.strerror}") from None
    if len(words) == 1 and _PATH.fullmatch(words[0]):
        print(f"There's no file {words[0]}, so this is read as a message.", file=sys.stderr)
    return " ".join(words)


def _ends(file: BinaryIO) -> bytes:
    # Don't hold the whole log, because it may be larger than memory. A pipe can't seek, so read it
    # piece by piece.
    head = file.read(HEAD)
    tail = b""
    if file.seekable():
        size = file.seek(0, os.SEEK_END)
        file.seek(max(len(head), size - TAIL))
        tail = file.read(TAIL)
    else:
        while piece := file.read(_PIECE):
            tail = (tail + piece)[-TAIL:]
    return head + tail


def _text(content: bytes, name: str) -> str:
    # Windows PowerShell's `>` writes UTF-16, where every second byte of an English log is 0. Drop
    # the zeros to get ASCII.
    if content.count(0) > len(content) // 3:
        content = content.replace(b"\0", b"")
    text = content.decode(errors="replace")
    strange = len(content) - len(content.translate(None, _CONTROL)) + text.count("\ufffd")
    if strange > len(text) * 0.3:
        raise NotReadable(f"{name} must be text, but most of it is something else. Name a log")
    return text


_CONTROL: Final = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1b"})

# Some tools print one of these instead of an Escape character and a bracket.
_ESCAPES: Final = ("^[[", "\\x1b[", "\\033[", "\\u001b[", "\\e[")
_TERMINAL: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # sequences for color and cursor
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"  # window titles and links
)
_COLOR: Final = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,4}m")  # a color code without its Escape
_MARGIN: Final = re.compile(r"^[\w.-]{0,40}[ \t]*[|>] ", re.MULTILINE)
_FRAME: Final = re.compile("[\u2500-\u257f\u200b\ufeff]+")
_ENTITIES: Final = (("&#39;", "'"), ("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"))
_LINE_BREAK: Final = re.compile(r"\\+[nrt](?=[^a-z]|$)")


def plain(log: str) -> str:
    """Remove what a terminal, a browser, or a logger added to a log.

    Remove colors, the margins that docker compose and exception groups add, the frames that rich
    draws, and the backslashes that JSON needs. Turn HTML entities back into characters.

    Args:
        log: Anything from one line to a whole log. Only the first 256 kB and last 2 MB of a long
            log count.

    Returns:
        The log on one line, with one space for any whitespace, straight quotes, and three dots for
        an ellipsis.
    """
    if len(log) > HEAD + TAIL:
        log = f"{log[:HEAD]}\n{log[-TAIL:]}"
    for escape in _ESCAPES:
        log = log.replace(escape, "\x1b[")
    if "\x1b" in log:
        log = _TERMINAL.sub("", log)
    log = _FRAME.sub(" ", _MARGIN.sub("", _COLOR.sub("", log)))
    if "\\" in log:
        log = re.sub(r"\\+(?=['\"])", "", _LINE_BREAK.sub(" ", log))
    for name, sign in _ENTITIES:
        log = log.replace(name, sign)
    return " ".join(log.translate(_SIGNS).split())


_SIGNS: Final = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2026": "..."}
)
