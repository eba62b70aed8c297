"""Show the doctor's current question in a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Final, TextIO

from dltutor.display.screen import on_a_page

Asked = Callable[[str, float], object]

_CLEAR: Final = "\r\x1b[K"
_WIDTH: Final = 100


@contextmanager
def shown(stream: TextIO | None = None) -> Iterator[Asked]:
    """Show each question while the block runs, and clear the last one afterward.

    Args:
        stream: Where to write outside a notebook (default standard error). If the
            stream isn't a terminal, write nothing.

    Yields:
        A function that takes a question and the most seconds until the answer.
    """
    stream = stream or sys.stderr
    if on_a_page():
        write = _on_a_page()
    elif stream is not None and stream.isatty():
        write = _in_a_terminal(stream)
    else:
        yield lambda question, seconds: None
        return
    try:
        yield lambda question, seconds: write(f"{question} ({seconds:.0f} s at most)")
    finally:
        write("")


def _in_a_terminal(stream: TextIO) -> Callable[[str], object]:
    def write(text: str) -> None:
        stream.write(f"{_CLEAR}{text[:_WIDTH]}")
        stream.flush()

    return write


def _on_a_page() -> Callable[[str], object]:
    from IPython.display import display

    def shown(text: str) -> dict[str, str]:
        return {"text/plain": text, "text/html": f"<em>{escape(text)}</em>" if text else ""}

    handle: Any = display(shown(""), raw=True, display_id=True)
    return lambda text: handle.update(shown(text), raw=True)
