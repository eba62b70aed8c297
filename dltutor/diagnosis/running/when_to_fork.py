"""The moment of a fork: chosen by whether one of the user's locks is held.

A thread of the user's process may hold a lock now and then. The fork of an experiment would copy
it as it is at that moment, by luck. So the sandbox waits a little before it forks, until all of
them are free; and for one experiment, until one of them is held.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from dltutor.diagnosis.probes.waits.causes import held as held_lock

WAITS: Final = 0.3  # seconds at most
_LOOKS: Final = 0.0005


def ever_held(locks: list[Any]) -> bool:
    """Say whether another thread holds one of the locks within a moment."""
    return wait(locks, held=True)


def others() -> tuple[threading.Thread, ...]:
    """Return the other threads of this process, without those of the instruments."""
    mine = threading.current_thread()
    return tuple(
        each
        for each in threading.enumerate()
        if each is not mine and not each.name.startswith("dltutor")
    )


def wait(locks: list[Any], *, held: bool) -> bool:
    """Wait a moment until a lock is held, or until none is.

    Args:
        locks: That are looked at.
        held: Whether to wait for one that is held; otherwise until all are free.

    Returns:
        Whether that came about.
    """
    until = time.monotonic() + WAITS
    while any(map(held_lock, locks)) != held:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOKS)
    return True
