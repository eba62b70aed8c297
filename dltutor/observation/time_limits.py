"""Interrupt the main thread at a deadline, and check that a deadline is possible."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from dltutor.observation.foreign import is_a, text
from dltutor.observation.interrupts import PUT_OFF_AT_MOST, in_plumbing

# Seconds after which the alarm repeats, because a bare `except:` in the learner's code may swallow
# DeadlinePassed, or because the alarm may ring where it must not raise DeadlinePassed.
_REPEAT = 0.05


class DeadlinePassed(BaseException):
    """The deadline has passed. `deadline` raises this exception in the main thread.

    This class isn't an Exception, because torch and some training loops catch every Exception.
    """


def check_deadline(seconds: object) -> None:
    """Raise ValueError unless `seconds` is a positive number that Python's waits accept."""
    number = type(seconds) is not bool and is_a(seconds, (int, float))
    if not (number and 0 < seconds <= threading.TIMEOUT_MAX):  # type: ignore[operator]
        raise ValueError(f"deadline must be a positive number of seconds, got {text(seconds)}")


def check_main_thread(call: str, why: str) -> None:
    """Raise RuntimeError unless this is the main thread.

    `call` is the name of the function, such as "observe()". `why` says what works only in the main
    thread, in words that follow "only there can".
    """
    here = threading.current_thread()
    if here is not threading.main_thread():
        raise RuntimeError(
            f"{call} must be called in the main thread, because only there can {why}. "
            f"This is {here.name}"
        )


class deadline:  # lowercase because it's a context manager, like contextlib.suppress
    """A context manager that raises DeadlinePassed in its block after `seconds`.

    Use a deadline only in the main thread. The deadline interrupts Python code, locks, sleeps, and
    waits, but not a call stuck inside C. While main passes batches, the exception waits for up to
    3 s. An outer user of SIGALRM, such as another deadline, gets back its handler and the rest of
    its time. `passed` is True after DeadlinePassed was raised.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._on = False
        self.passed = False

    def stop(self) -> None:
        """Turn off the deadline for the rest of the block."""
        self._on = False

    def __enter__(self) -> None:
        # Stop the timer first, so that an outer user's alarm doesn't reach our handler.
        self._left, self._interval = signal.setitimer(signal.ITIMER_REAL, 0)
        self._handler = signal.signal(signal.SIGALRM, self._ring)
        self._started = time.monotonic()
        self._on = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds, _REPEAT)

    def __exit__(self, *raised: object) -> None:
        self._on = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        if self._left:
            due = max(self._left - (time.monotonic() - self._started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, due, self._interval)

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        # Don't raise DeadlinePassed in `__enter__` or `__exit__`, because then nothing would
        # restore the timer.
        ours = frame is not None and frame.f_code.co_filename == __file__
        late = time.monotonic() > self._started + self._seconds + PUT_OFF_AT_MOST
        if self._on and not ours and (late or not in_plumbing(frame)):
            self.passed = True
            raise DeadlinePassed
