"""End an iteration once its time is up, and a pickle that takes too long or gets too large."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, TypeVar

_Each = TypeVar("_Each")


def in_time(things: Iterable[_Each], seconds: float) -> Iterator[_Each]:
    """Yield the elements of an iterable until `seconds` have passed, but always the first one."""
    until = time.monotonic() + seconds
    for each in things:
        yield each
        if time.monotonic() > until:
            return


class Limited(io.BytesIO):
    """A file in memory that raises an exception if it gets too large, or if writing takes too long.

    The file checks its limits after each write, and a pickler usually writes about 64 kB at once.

    Args:
        error: The exception to raise.
        size: The most bytes in the file (default: any number).
        seconds: The most seconds from making the file to the end of a write (default: any number).
    """

    def __init__(self, error: Exception, *, size: float = inf, seconds: float = inf) -> None:
        super().__init__()
        self._error, self._size, self._until = error, size, time.monotonic() + seconds

    def write(self, data: Any) -> int:
        written = super().write(data)
        if self.tell() > self._size or time.monotonic() > self._until:
            raise self._error
        return written
