"""Calls a function in a fork of the bench's process, and kills the fork with all its children.

So every attempt begins in the same state, and nothing that one of them does reaches the next.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dltutor.observation import own_files
from dltutor.system.processes import descendants


class NoAnswer(Exception):
    """A fork died, hung or raised."""


def in_fork(work: Callable[[], Any], seconds: float) -> Any:
    """What a function returns in a fork of this process; the fork and its children are killed then.

    Args:
        work: Returns what can be pickled.
        seconds: How long it may take.

    Raises:
        NoAnswer: It raised, died, or took longer.
    """
    positions = own_files.positions()
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
    told = _read(read, time.monotonic() + seconds)
    # Its children too: they may hold what the next fork needs.
    for each in (*descendants(pid), pid):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    own_files.put_back(positions)
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
        return None, f"{type(error).__name__}: {error}"


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
