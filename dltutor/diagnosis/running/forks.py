"""Calls a function in a fork of the subject's process, and kills the fork with all its children.

So every attempt begins in the same state, and nothing that one of them does reaches the next.
"""

from __future__ import annotations

import os
import pickle
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from dltutor.observation import own_files
from dltutor.observation.foreign import said
from dltutor.system.processes import end, known


class NoAnswer(Exception):
    """A fork died, hung or raised."""


def in_fork(work: Callable[[], Any], seconds: float) -> Any:
    """Call a function in a fork of this process, then kill the fork and its children.

    Args:
        work: Returns what can be pickled.
        seconds: How long it may take.

    Raises:
        NoAnswer: It raised, died, or took longer.
    """
    return in_forks([work], seconds)[0]


def in_forks(works: Sequence[Callable[[], Any]], seconds: float) -> list[Any]:
    """Call several functions at once, each in its own fork, as `in_fork` does.

    Args:
        works: Each returns what can be pickled.
        seconds: How long they may take together.

    Raises:
        NoAnswer: One of them raised, died, or took longer.
    """
    until = time.monotonic() + seconds
    positions = own_files.positions()
    begun: list[tuple[int, int]] = []
    try:
        for work in works:
            begun.append(_begin(work))
        told = [_read(read, until) for _, read in begun]
    finally:
        # Their children too: they may hold what the next fork needs.
        end(*(known(pid) for pid, _ in begun))
        own_files.put_back(positions)
    return [_answer(each) for each in told]


def _begin(work: Callable[[], Any]) -> tuple[int, int]:
    # The fork's pid, and where it says what it has got.
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            answer = pickle.dumps(_attempt(work))
            with os.fdopen(write, "wb") as pipe:
                pipe.write(answer)
            time.sleep(60)  # it is killed: its children are known as long as it lives
        finally:
            os._exit(0)
    os.close(write)
    return pid, read


def _answer(told: bytes) -> Any:
    if not told:
        raise NoAnswer("it died, or did not come to its end")
    answer, error = pickle.loads(told)
    if error:
        raise NoAnswer(error)
    return answer


def _attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except BaseException as error:  # also SystemExit
        return None, said(error)


def _read(descriptor: int, until: float) -> bytes:
    told = b""
    with os.fdopen(descriptor, "rb", buffering=0) as pipe, selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        # The end is known by pickle's own: workers that live on keep the pipe open.
        while time.monotonic() < until:
            if ready.select(0.05):
                got = pipe.read(1 << 16)
                told += got or b""
                if not got or _whole(told):
                    return told if _whole(told) else b""
    return b""


def _whole(told: bytes) -> bool:
    if not told.endswith(b"."):
        return False
    with suppress(Exception):
        pickle.loads(told)
        return True
    return False
