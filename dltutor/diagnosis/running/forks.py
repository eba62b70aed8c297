"""Call a function in a fork of the subject's process, and kill the fork with all its children.

This way, every attempt begins in the same state, and no attempt affects the next.
"""

from __future__ import annotations

import os
import pickle
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from dltutor.diagnosis.running.subject import Unanswered
from dltutor.observation import own_files
from dltutor.observation.foreign import said
from dltutor.system.processes import end, known

_Answer = TypeVar("_Answer")


class NoAnswer(Unanswered):
    """Raised if a fork died, hung, or raised an exception."""


def in_fork(work: Callable[[], _Answer], seconds: float) -> _Answer:
    """Return what a function returns in a fork of this process, and kill the fork and its children.

    Args:
        work: A function that returns something that can be pickled.
        seconds: How many seconds the function may take.

    Raises:
        NoAnswer: The function raised an exception or took longer than `seconds`, or its fork died.
    """
    return in_forks([work], seconds)[0]


def attempt(work: Callable[[], _Answer], seconds: float) -> _Answer | None:
    """Return what `in_fork` returns, or None instead of raising NoAnswer."""
    with suppress(NoAnswer):
        return in_fork(work, seconds)
    return None


def in_forks(works: Sequence[Callable[[], _Answer]], seconds: float) -> list[_Answer]:
    """Call several functions at once, each in its own fork, and return their results in order.

    In the end, kill the forks and their children, and put back the positions in this process's
    open files.

    Args:
        works: Functions that return something that can be pickled.
        seconds: After how many seconds all functions have to be finished.

    Raises:
        NoAnswer: A function raised an exception or took longer than `seconds`, or its fork died.
    """
    until = time.monotonic() + seconds
    positions = own_files.positions()
    begun: list[tuple[int, int]] = []
    try:
        for work in works:
            begun.append(_begin(work))
        received = [_read(read, until) for _, read in begun]
    finally:
        # Also end the forks' children, because these may hold a lock that the next fork needs.
        end(*(known(pid) for pid, _ in begun))
        own_files.put_back(positions)
    return [_answer(each) for each in received]


def _begin(work: Callable[[], Any]) -> tuple[int, int]:
    # Return the fork's pid, and the descriptor to read its answer from.
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            answer = pickle.dumps(_call(work))
            with os.fdopen(write, "wb") as pipe:
                pipe.write(answer)
            time.sleep(60)  # the parent finds a fork's children only while the fork is alive
        finally:
            os._exit(0)
    os.close(write)
    return pid, read


def _answer(received: bytes) -> Any:
    if not received:
        raise NoAnswer("a part of it died, or didn't finish in time")
    answer, error = pickle.loads(received)
    if error:
        raise NoAnswer(error)
    return answer


def _call(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except BaseException as error:  # even SystemExit, so that the fork can answer
        return None, said(error)


def _read(descriptor: int, until: float) -> bytes:
    received = b""
    with os.fdopen(descriptor, "rb", buffering=0) as pipe, selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        # Look for the pickle's end, because workers that are still alive keep the pipe open.
        while time.monotonic() < until:
            if ready.select(0.05):
                got = pipe.read(1 << 16)
                received += got or b""
                if not got or _whole(received):
                    return received if _whole(received) else b""
    return b""


def _whole(received: bytes) -> bool:
    if not received.endswith(b"."):
        return False
    with suppress(Exception):
        pickle.loads(received)
        return True
    return False
