"""Call a function in a fork of this process, and kill the fork with all its children.

This way, every attempt begins in the same state, and no attempt affects the next.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from dltutor.diagnosis.running.subject import Unanswered
from dltutor.observation import own_files
from dltutor.observation.foreign import said
from dltutor.system.processes import end, fork, known

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
    begun: list[tuple[int, Connection]] = []
    try:
        for work in works:
            begun.append(_begin(work))
        return [_answer(connection, until) for _, connection in begun]
    finally:
        # Also end the forks' children, because these may hold a lock that the next fork needs.
        end(*(known(pid) for pid, _ in begun))
        own_files.put_back(positions)


def _begin(work: Callable[[], Any]) -> tuple[int, Connection]:
    # Return the fork's pid, and the connection that its answer comes from.
    receiver, sender = Pipe(duplex=False)
    pid = fork()
    if pid == 0:
        try:
            sender.send_bytes(pickle.dumps(_call(work)))
            time.sleep(60)  # the parent finds a fork's children only while the fork is alive
        finally:
            os._exit(0)
    sender.close()
    return pid, receiver


def _call(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except BaseException as error:  # even SystemExit, so that the fork can answer
        return None, said(error)


def _answer(connection: Connection, until: float) -> Any:
    received = b""
    with connection, suppress(EOFError):
        if connection.poll(max(until - time.monotonic(), 0.0)):
            received = connection.recv_bytes()
    if not received:
        raise NoAnswer("a part of it died, or didn't finish in time")
    answer, error = pickle.loads(received)
    if error:
        raise NoAnswer(error)
    return answer
