"""Stop, pressed by the learner: let through while the loader runs, held back while we tidy up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.popen_fork import Popen
from types import FrameType
from typing import Any


class Interrupts:
    """A SIGINT handler that holds an interrupt back until it may do no harm.

    Blocking the signal would not do: a kernel has other threads, and the system hands the
    signal to any of them.
    """

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._holding = True
        self._pending = False

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if self._holding or forking(frame):
            self._pending = True
        elif callable(self._handler):
            self._handler(signum, frame)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Hand interrupts on at once in the block."""
        self._holding = False
        try:
            self.deliver()
            yield
        finally:
            self._holding = True

    def deliver(self) -> None:
        """Raise KeyboardInterrupt if an interrupt was held back."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


def forking(frame: FrameType | None) -> bool:
    """Whether a signal handler has interrupted the start of a forked worker.

    It must not raise there. In what runs at a fork Python prints an exception and goes on; right
    after it nobody knows yet of the child and of its pipes.

    Args:
        frame: What the handler was given.
    """
    while frame is not None:
        if frame.f_code is Popen._launch.__code__:  # type: ignore[attr-defined]  # not in its stubs
            return True
        frame = frame.f_back
    return False


@contextmanager
def interrupts_held() -> Iterator[Interrupts]:
    """Hold interrupts back in the block; one that came meanwhile is raised at its end."""
    previous = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts(previous)
    if callable(previous):
        signal.signal(signal.SIGINT, interrupts.handle)
    try:
        yield interrupts
    finally:
        if callable(previous):
            signal.signal(signal.SIGINT, previous)
    interrupts.deliver()
