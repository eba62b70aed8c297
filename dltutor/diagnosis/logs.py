"""A log as it comes: read from where it is, and made plain enough to be searched."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

# The end of a log says how a run ended. Its beginning has the warnings about what was to come.
HEAD: Final = 256 * 1024  # bytes
TAIL: Final = 2 * 1024 * 1024

_PIECE: Final = 1024 * 1024

# One word with a slash, or what ends like a log. A message has spaces around a path, or says with
# a colon or quotes what it is.
_PATH: Final = re.compile(
    r"(?:[A-Za-z]:)?(?:[^\s:'\"]*[/\\][^\s:'\"]*|[^\n:'\"]+\.(?:err|log|out|txt))"
)


class NotReadable(Exception):
    """A log cannot be read; the message says why, in one sentence."""


def read_log(words: Sequence[str]) -> str:
    """Get the text that somebody names on a command line.

    Args:
        words: Nothing or "-" for standard input; one word that is an existing file for its
            content; anything else is the text itself. Of one word that looks like a path, standard
            error says that there is no such file.

    Returns:
        The text; of a long one the first 256 kB and the last 2 MB.

    Raises:
        NotReadable: The file is a directory, may not be read, or holds no text.
    """
    if list(words) in ([], ["-"]):
        if sys.stdin.isatty():
            print("Paste the message, then press Ctrl-D on an empty line.", file=sys.stderr)
        return _text(_ends(sys.stdin.buffer), "standard input")
    if len(words) == 1 and _exists(words[0]):
        path = Path(words[0])
        if path.is_dir():
            raise NotReadable(f"FILE must be a log, got the directory {path}: name a file in it")
        try:
            with path.open("rb") as file:
                return _text(_ends(file), str(path))
        except OSError as error:
            raise NotReadable(f"{path} cannot be read: {error.strerror}") from None
    if len(words) == 1 and _PATH.fullmatch(words[0]):
        print(f"There is no file {words[0]}: searching these words as a message.", file=sys.stderr)
    return " ".join(words)


def _exists(word: str) -> bool:
    try:
        return os.path.exists(word)
    except (OSError, ValueError):  # too long for a name, or with a NUL: a message
        return False


def _ends(file: BinaryIO) -> bytes:
    # Read piece by piece: a pipe cannot be asked for its end, and a log may be larger than memory.
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
    # PowerShell's `>` writes UTF-16: every second byte of an English log is 0.
    if content.count(0) > len(content) // 3:
        content = content.replace(b"\0", b"")
    text = content.decode(errors="replace")
    strange = len(content) - len(content.translate(None, _CONTROL)) + text.count("\ufffd")
    if strange > len(text) * 0.3:
        raise NotReadable(f"{name} must hold text, and most of it is something else: name a log")
    return text


_CONTROL: Final = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1b"})

_ESCAPES: Final = ("^[[", "\\x1b[", "\\033[", "\\u001b[", "\\e[")  # how others write the byte
_TERMINAL: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # color and cursor
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"  # titles and links
)
_COLOR: Final = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,4}m")  # that lost its escape
_MARGIN: Final = re.compile(r"^[\w.-]{0,40}[ \t]*[|>] ", re.MULTILINE)
_FRAME: Final = re.compile("[\u2500-\u257f\u200b\ufeff]+")
_ENTITIES: Final = (("&#39;", "'"), ("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"))
_LINE_BREAK: Final = re.compile(r"\\+[nrt](?=[^a-z]|$)")


def plain(log: str) -> str:
    """Take away what a terminal, a browser or a logger did to a log.

    Args:
        log: Anything from one line to a whole log.

    Returns:
        The same words on one line: without colors, the margins of docker compose and of exception
        groups, the frames that rich draws, and line breaks and quotes that JSON wrote out; with
        one space for any white space, and three dots for an ellipsis. Of a long log the first
        256 kB and the last 2 MB.
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
