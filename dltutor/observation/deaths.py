"""Torch's notice of a worker's death, kept out of the places where it would do harm."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from dltutor.observation.interrupts import PUT_OFF_AT_MOST, in_plumbing

_SOON: Final = 0.005  # seconds


class _Considerate:
    """A handler that comes again a moment later if it would raise in the plumbing, for a while."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self._handler = handler
        self._since: float | None = None  # when it was put off first

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self._since = self._since or now
        if in_plumbing(frame) and now < self._since + PUT_OFF_AT_MOST:
            # Not a threading.Timer: what was interrupted may hold the lock that its start takes.
            _thread.start_new_thread(_again, (signum,))
        else:
            self._since = None
            self._handler(signum, frame)


def _again(signum: int) -> None:
    time.sleep(_SOON)
    os.kill(os.getpid(), signum)


def delay_in_plumbing() -> None:
    """Make torch's SIGCHLD handler, once it is there, wait for the end of a transfer.

    It raises wherever main happens to be when a worker dies. In the middle of a transfer that
    loses a descriptor, leaves a lock that nobody gives back, or makes torch print "Exception
    ignored in StorageWeakRef.__del__".
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not isinstance(handler, _Considerate):
        signal.signal(signal.SIGCHLD, _Considerate(handler))
