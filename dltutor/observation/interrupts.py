"""Hold back signals that would do harm right now, and deliver them a moment later.

When you press Stop, the loader is interrupted at once, but our clean-up isn't. Torch's notice of a
worker's death waits for the end of a transfer.
"""

from __future__ import annotations

import _thread
import os
import selectors
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import popen_fork
from types import FrameType
from typing import Any, Final

from torch.utils.data import dataloader

from dltutor.observation.errors import is_yours

#: Seconds for which a handler may be put off, since a transfer in which a worker died never ends.
PUT_OFF_AT_MOST: Final = 1.0

_SOON: Final = 0.005  # seconds
_TORCH: Final = (dataloader.__file__, tempfile.__file__)


class Interrupts:
    """A SIGINT handler that holds an interrupt back until it can do no harm.

    Blocking the signal isn't enough, because a notebook has other threads, and the operating system
    delivers the signal to any of them.
    """

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._holding = False
        self._pending = False

    def handle(self, signum: int, frame: FrameType | None) -> None:
        # A second Stop interrupts immediately.
        if self._holding or (not self._pending and in_plumbing(frame)):
            self._pending = True
        elif callable(self._handler):
            self._pending = False
            self._handler(signum, frame)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Hand interrupts on at once in the block."""
        holding, self._holding = self._holding, False
        try:
            self.deliver()
            yield
        finally:
            self._holding = holding

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold interrupts back in the block, and then, unless they were held before, deliver."""
        holding, self._holding = self._holding, True
        try:
            yield
        finally:
            self._holding = holding
        self.deliver()

    def deliver(self) -> None:
        """Raise KeyboardInterrupt if an interrupt was held back and isn't to be held any longer."""
        if self._pending and not self._holding:
            self._pending = False
            raise KeyboardInterrupt


def in_plumbing(frame: FrameType | None) -> bool:
    """Whether a signal handler has interrupted the code that passes batches between processes.

    It shouldn't raise there, because a descriptor would be lost, or the exception itself: in
    `__del__` and in what runs at a fork, Python prints an exception and carries on. The code in
    which torch opens temporary files, to find out why no batch arrives, counts too.

    Args:
        frame: What the handler was given.
    """
    if frame is None or frame.f_code.co_filename == selectors.__file__:  # it waits for a batch
        return False
    files = [each.f_code.co_filename for each, _ in traceback.walk_stack(frame)]
    if popen_fork.__file__ in files:
        return True
    for file in files:
        if is_yours(file):
            return False
        if "/multiprocessing/" in file or file in _TORCH:  # Python's multiprocessing or torch's
            return True
    return False


@contextmanager
def interrupts_held() -> Iterator[Interrupts]:
    """Hold interrupts back in the block, and raise one that came in between at its end.

    In a block within a block, they are held until the end of the outer one, except where either
    lets them through. In another thread than the main one it does nothing: only the main thread is
    ever interrupted.
    """
    previous = signal.getsignal(signal.SIGINT)
    outer = getattr(previous, "__self__", None)
    interrupts = Interrupts(previous)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield interrupts
    elif isinstance(outer, Interrupts):
        with outer.hold():
            yield outer
    else:
        with interrupts.hold():
            signal.signal(signal.SIGINT, interrupts.handle)
            try:
                yield interrupts
            finally:
                signal.signal(signal.SIGINT, previous)


class _Considerate:
    """Put off a signal handler while main passes batches, for at most a second."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self._handler = handler
        self._since: float | None = None  # when it was first put off

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self._since = self._since or now
        if in_plumbing(frame) and now < self._since + PUT_OFF_AT_MOST:
            # Not a threading.Timer, because what was interrupted may hold the lock that it needs.
            _thread.start_new_thread(_again, (signum,))
        else:
            self._since = None
            self._handler(signum, frame)


def _again(signum: int) -> None:
    time.sleep(_SOON)
    os.kill(os.getpid(), signum)


def delay_in_plumbing() -> None:
    """Make torch's SIGCHLD handler wait for the end of a transfer, if torch has installed it.

    It raises wherever main happens to be when a worker dies. In the middle of a transfer, that
    loses a descriptor, leaves a lock held forever, or makes torch print "Exception ignored in
    StorageWeakRef.__del__".
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not isinstance(handler, _Considerate):
        signal.signal(signal.SIGCHLD, _Considerate(handler))
