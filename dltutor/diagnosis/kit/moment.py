"""The moment of a fork: chosen by whether one of the user's locks is held.

A thread of the user's process may hold a lock now and then. The fork of an experiment would copy
it as it is at that moment, by luck. So a fork waits a little, until all of them are free; and for
one experiment, until one of them is held.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

from dltutor.diagnosis.kit.awaited import held as held_lock

WAITS: Final = 0.3  # seconds at most
_LOOKS: Final = 0.0005

_waiting: list[tuple[list[Any], bool]] = []  # for the next fork: the locks, and whether one is held


def choose(locks: list[Any], *, held: bool) -> None:
    """Have the next fork of this process wait.

    Args:
        locks: That are looked at.
        held: Whether it waits until one of them is held, or until all are free.
    """
    _waiting[:] = [(locks, held)] if locks else []


def forget() -> None:
    """Have no fork wait."""
    _waiting.clear()


def ever_held(locks: list[Any]) -> bool:
    """Whether one of the locks is held by another thread within a moment."""
    return _wait(locks, held=True)


def others() -> tuple[threading.Thread, ...]:
    """The other threads of this process, without the instruments'."""
    mine = threading.current_thread()
    return tuple(
        each
        for each in threading.enumerate()
        if each is not mine and not each.name.startswith("dltutor")
    )


def _wait(locks: list[Any], *, held: bool) -> bool:
    until = time.monotonic() + WAITS
    while any(map(held_lock, locks)) != held:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOKS)
    return True


def _before_fork() -> None:
    if _waiting:
        locks, held = _waiting.pop()
        _wait(locks, held=held)


os.register_at_fork(before=_before_fork)
