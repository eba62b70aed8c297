"""Choose when to fork, depending on whether a thread holds one of the user's locks.

A thread in the user's process may hold a lock now and then, and a fork copies the lock in that
state. So that results don't depend on luck, the doctor waits a moment before it forks, until all
locks are free or, for one experiment, until one of them is held.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from dltutor.diagnosis.probes.waits.causes import held as held_lock

WAITS: Final = 0.3  # the most seconds to wait
_LOOKS: Final = 0.0005  # seconds between two looks


def others() -> tuple[threading.Thread, ...]:
    """Return the other threads of this process, except dltutor's own."""
    mine = threading.current_thread()
    return tuple(
        each
        for each in threading.enumerate()
        if each is not mine and not each.name.startswith("dltutor")
    )


def wait(locks: list[Any], *, held: bool) -> bool:
    """Wait up to 0.3 s until one of the locks is held or, if not `held`, until all are free.

    Return whether that happened.
    """
    until = time.monotonic() + WAITS
    while any(map(held_lock, locks)) != held:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOKS)
    return True
