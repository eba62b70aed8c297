"""Look at what this process has open, and wait until something has happened."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

DEADLINE: Final = 200.0  # the most seconds for a step of a test, even on a very busy machine

Found = TypeVar("Found")


def descriptors() -> dict[int, str]:
    """Return the target of each open descriptor of this process, by the descriptor's number."""
    found = {}
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # listdir's own descriptor is closed by now
            found[int(name)] = os.readlink(f"/dev/fd/{name}")
    return found


def until(condition: Callable[[], Found], seconds: float = DEADLINE) -> Found:
    """Call `condition` until its value is true, and return the value. Fail after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
    return found
