"""Run an answer in a process that may die, hang or leave workers behind, and hear what it says."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dltutor.observation.leftovers import nothing_left
from dltutor.system import processes

_LOOK: Final = 0.02  # seconds between two looks whether it lives

Say = Callable[[Any], None]


@dataclass(frozen=True)
class Ended:
    """What is known of a process that ran an answer.

    Args:
        said: What the answer's process said, in order. Anything that can be pickled.
        exitcode: How it ended: 0 if all went well, minus the signal that killed it; None if it
            was stopped at its deadline.
        words: What it, and all that it started, wrote to descriptor 2.
    """

    said: tuple[Any, ...]
    exitcode: int | None
    words: str


def run_apart(work: Callable[[Say], None], *, seconds: float) -> Ended:
    """Call a function in a forked copy of this process.

    Its collector of cycles is off: nothing is collected by chance. Afterwards neither it nor
    anything that it started lives.

    Args:
        work: Takes a function with which it can say things to this process.
        seconds: After which it is stopped.
    """
    fork = multiprocessing.get_context("fork")
    hear, say = fork.Pipe(duplex=False)
    said: list[Any] = []
    until = time.monotonic() + seconds
    with tempfile.TemporaryFile() as words, nothing_left(), hear:
        process = fork.Process(target=_work, args=(work, say, words.fileno()))
        process.start()
        say.close()
        # Workers of the answer inherit the pipe and the sentinel: neither tells of the end.
        while process.exitcode is None and time.monotonic() < until:
            _listen(hear, said, _LOOK)
        _listen(hear, said, 0)
        exitcode = process.exitcode
        if exitcode is None and process.pid is not None:
            processes.end(process.pid)
        process.join()
        process.close()
        words.seek(0)
        return Ended(tuple(said), exitcode, words.read().decode(errors="replace"))


def _listen(hear: Any, said: list[Any], seconds: float) -> None:
    try:
        while hear.poll(seconds):
            said.append(hear.recv())
            seconds = 0
    except EOFError:
        time.sleep(_LOOK)


def _work(work: Callable[[Say], None], say: Any, words: int) -> None:
    os.dup2(words, 2)
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - to its end
    faulthandler.disable()  # Jupyter and pytest turn it on; a death here is nothing new
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()
    work(say.send)
