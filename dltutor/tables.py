"""Define tables and notes for terminals and notebooks, and format counts and numbers of bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Final, Literal

MB: Final = 1 << 20  # bytes in what the course calls 1 MB (see notebooks/GLOSSARY.md)

Tone = Literal["plain", "good", "bad", "warn"]

# The colors of the left edge of a table or note. Each has a contrast of at least 3:1 against white
# and against JupyterLab's dark pages (#111). The color only repeats what the title or label says.
_EDGES: Final[dict[Tone, str]] = {
    "plain": "#7f7f7f",
    "good": "#009e73",
    "bad": "#d55e00",
    "warn": "#b58900",
}


@dataclass(frozen=True)
class Table:
    """A titled table of text for terminals and notebooks.

    Args:
        title: The line above the rows. The title must make sense without the color of the edge.
        rows: The cells, row by row. A cell may hold several lines.
        header: The column names. If empty, the table is a list of labels and values.
        tone: The color of the edge in HTML.
    """

    title: str
    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()
    tone: Tone = "plain"

    def __str__(self) -> str:
        lines = [*([self.header] if self.header else []), *self.rows]
        widths = _widths(lines)
        text = [self.title]
        for cells in lines:
            text.extend(f"  {line}".rstrip() for line in _text_row(cells, widths))
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "text-align:left;vertical-align:top;padding:2px 14px 2px 0;white-space:pre-wrap"
        head = "".join(f'<th style="{cell}">{escape(name)}</th>' for name in self.header)
        body = "".join(_html_row(row, cell, labeled=not self.header) for row in self.rows)
        return framed(
            f'<div style="font-weight:600;padding:2px 0">{escape(self.title)}</div>'
            '<table style="margin:0;border-collapse:collapse;background:transparent">'
            + (f"<thead><tr>{head}</tr></thead>" if head else "")
            + f"<tbody>{body}</tbody></table>",
            self.tone,
        )


class Told:
    """A base class for records, which terminals and notebooks show as the table from `story`."""

    def story(self) -> Table:
        """Return the table. Each subclass overrides this method."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.story())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()


@dataclass(frozen=True)
class Note:
    """A short message with a label, such as the result of a check.

    A notebook shows the label in bold, and the parts in `backticks` as code.

    Args:
        label: The kind of note, with its punctuation, such as "Not yet.".
        text: One or two sentences, with code in `backticks`.
        tone: The color of the edge in HTML.
    """

    label: str
    text: str
    tone: Tone = "plain"

    def __str__(self) -> str:
        return f"{self.label} {self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return framed(f"<b>{escape(self.label)}</b> {with_code(self.text)}", self.tone)


def with_code(text: str) -> str:
    """Return text as HTML, with the parts in `backticks` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def size(count: float) -> str:
    """Format a number of bytes, such as "1.5 GB" (powers of 1024), or "unlimited" if not finite."""
    if not math.isfinite(count):
        return "unlimited"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 10 or count == int(count) else f"{count:.1f} {unit}"


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun, such as "1 sample". By default, the plural adds an "s"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def framed(inner: str, tone: Tone, *, wrap: bool = True) -> str:
    """Frame HTML with a colored edge on its left.

    Args:
        inner: The HTML to frame.
        tone: "plain", "good", "bad", or "warn", which decides the color of the edge.
        wrap: Whether to keep the line breaks in `inner`.
    """
    style = f"border-left:4px solid {_EDGES[tone]};padding:2px 0 2px 12px;margin:4px 0"
    return f'<div style="{style}{";white-space:pre-wrap" if wrap else ""}">{inner}</div>'


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    columns = zip_longest(*rows, fillvalue="")
    return [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]


def _text_row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for parts in zip_longest(*(cell.split("\n") for cell in cells), fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, widths, strict=False))
        yield "  ".join(padded)


def _html_row(cells: Sequence[str], style: str, *, labeled: bool) -> str:
    # Don't set a text color, because the theme's own color is readable on light and dark pages.
    shown = []
    for position, text in enumerate(cells):
        weight = ";opacity:0.75" if labeled and position == 0 else ""
        shown.append(f'<td style="{style}{weight}">{escape(text)}</td>')
    return f'<tr style="background:transparent">{"".join(shown)}</tr>'
