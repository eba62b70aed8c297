"""Hold back signals that would do harm right now, and deliver them a moment later.

When you press Stop, the signal interrupts the loader, but not our clean-up. If a worker dies while
main exchanges data with a process, torch's signal handler waits until main is done, but at most
3 s.
"""

from __future__ import annotations

import _thread
import _weakrefset
import os
import selectors
import signal
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import popen_fork
from types import FrameType
from typing import Any, Final

from torch.utils.data import dataloader

from dltutor.observation.errors import is_yours

#: The most seconds to put off a handler, because a transfer in which a worker died may never end.
PUT_OFF_AT_MOST: Final = 3.0

_SOON: Final = 0.005  # seconds to wait before re-sending a signal that we put off
_TORCH: Final = (dataloader.__file__, tempfile.__file__)
_CALLBACKS: Final = (weakref.__file__, _weakrefset.__file__)


class Interrupts:
    """A handler for a signal, such as SIGINT, that holds the signal back until it can do no harm.

    Blocking the signal isn't enough, because a notebook has other threads, and the operating system
    may deliver the signal to any of them.

    Args:
        handler: The handler to call when nothing holds the signal back.
        by_user: Whether you send the signal, by pressing Stop. If so, a second signal gets through
            even while main passes batches, and no signal gets through twice.
    """

    def __init__(self, handler: Any, *, by_user: bool = True) -> None:
        self._handler = handler
        self._by_user = by_user
        self._holding = False
        self._pending = False
        self._since = 0.0  # when the pending interrupt first arrived
        self._senders: set[object] = set()  # one for each thread that may still send an interrupt
        self._sent = False  # whether `_send_again` sent the next interrupt

    def handle(self, signum: int, frame: FrameType | None) -> None:
        again, self._sent = self._sent, False
        if again and not self._pending and self._by_user:
            return  # the pending interrupt was delivered in the meantime
        if self._holding:
            self._pending = True
        elif in_plumbing(frame) and self._may_wait(again):
            # Send the signal again, because main may be about to wait for a batch forever. Don't
            # use threading.Timer for that, because it needs a lock that the interrupted code may
            # hold.
            self._pending = True
            self._senders.add(sender := object())
            _thread.start_new_thread(self._send_again, (signum, sender))
        elif callable(self._handler):
            self._pending = False
            self._handler(signum, frame)

    def _may_wait(self, again: bool) -> bool:
        if not self._pending:
            self._since = time.monotonic()
            return True
        if self._by_user and not again:  # you have pressed Stop twice
            return False
        return time.monotonic() < self._since + PUT_OFF_AT_MOST

    def _send_again(self, signum: int, sender: object) -> None:
        time.sleep(_SOON)
        if self._pending:
            self._sent = True
            os.kill(os.getpid(), signum)
        self._senders.discard(sender)

    def settle(self) -> None:
        """Wait up to 1 s until no thread may still send an interrupt to the next handler."""
        # Don't wait forever, because a fork has the set, but not the threads that empty it.
        until = time.monotonic() + 1
        while self._senders and time.monotonic() < until:
            time.sleep(_SOON / 5)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Let interrupts through in the block, except while main passes batches.

        If an interrupt was held back before the block, raise KeyboardInterrupt right away.
        """
        holding, self._holding = self._holding, False
        try:
            self.deliver()
            yield
        finally:
            self._holding = holding

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold interrupts back in the block, and longer if an outer block holds them.

        When the block ends without an exception, do what `deliver` does.
        """
        holding, self._holding = self._holding, True
        try:
            yield
        finally:
            self._holding = holding
        self.deliver()

    def deliver(self) -> None:
        """Raise KeyboardInterrupt if an interrupt was held back and no block holds it anymore."""
        if self._pending and not self._holding:
            self._pending = False
            raise KeyboardInterrupt


def in_plumbing(frame: FrameType | None) -> bool:
    """Return whether a signal handler's `frame` is in code that the handler shouldn't interrupt.

    An exception in code that passes batches between processes, or starts or joins one, could lose a
    descriptor. And Python only prints an exception that's raised in `__del__`, in a function
    that runs at a fork, or when a WeakSet removes an object. Code that passes batches includes
    torch's search for the reason why no batch arrives, which opens temporary files.
    """
    if frame is None:
        return False
    innermost = frame.f_code
    if innermost.co_filename == selectors.__file__ and innermost.co_name == "select":
        return False  # main waits for a batch, so nothing can be lost
    files = [each.f_code.co_filename for each, _ in traceback.walk_stack(frame)]
    if popen_fork.__file__ in files or innermost.co_filename in _CALLBACKS:
        return True
    for file in files:
        if is_yours(file):
            return False
        if "/multiprocessing/" in file or file in _TORCH:
            return True
    return False


@contextmanager
def interrupts_held() -> Iterator[Interrupts]:
    """Hold interrupts back in the block, and then raise KeyboardInterrupt if one has arrived.

    The Interrupts that this yields can let interrupts through in between. Nested blocks share one
    Interrupts, so they hold interrupts back until the outer block ends. Do nothing if SIGINT has no
    Python handler, or outside the main thread, because Python interrupts only the main thread.
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
                interrupts.settle()
                signal.signal(signal.SIGINT, previous)


def delay_in_plumbing() -> None:
    """Make the SIGCHLD handler, such as torch's, wait up to 3 s while main passes batches.

    When a worker dies, torch's handler raises an error wherever main happens to be. In the middle
    of a transfer, the error can lose a descriptor or leave a lock held forever. In torch's
    `StorageWeakRef.__del__`, Python would only print the error and go on.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not isinstance(getattr(handler, "__self__", None), Interrupts):
        signal.signal(signal.SIGCHLD, Interrupts(handler, by_user=False).handle)
