"""Stop an iteration once its time is up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

_Each = TypeVar("_Each")


def in_time(things: Iterable[_Each], seconds: float) -> Iterator[_Each]:
    """Yield the first of some things, and the next ones until `seconds` have passed."""
    until = time.monotonic() + seconds
    for each in things:
        yield each
        if time.monotonic() > until:
            return
