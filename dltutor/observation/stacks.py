"""Ask a stuck worker for its stack, with a signal that faulthandler answers.

The handler is C code, so it answers even if Python is stuck in a lock or a library. Unlike a
debugger that attaches from outside, it needs no privilege.
"""

from __future__ import annotations

import faulthandler
import linecache
import os
import re
import signal
import time
from pathlib import Path
from typing import Final

from dltutor.observation.errors import frame, is_yours
from dltutor.observation.record import Frame

_ASK: Final = signal.SIGUSR2
_LINE: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def answer_when_asked(folder: str) -> None:
    """Have this process write its stacks into `folder` whenever `ask` asks for them."""
    # Don't close the file, because faulthandler writes to it later.
    faulthandler.register(_ASK, file=_answers(folder, os.getpid()).open("w"), all_threads=True)


def ask(folder: str, pid: int, *, within: float = 1.0) -> tuple[Frame, ...] | None:
    """Ask a process for its stack, in the folder for which it called `answer_when_asked`.

    Returns:
        The learner's lines in the process's main thread, innermost first, or the line in torch's
        worker loop if there are none. The result is None if the process hasn't called
        `answer_when_asked`, is gone, or takes longer than `within` seconds.
    """
    path = _answers(folder, pid)
    if not path.exists():
        return None  # the process has no handler yet, so the signal would kill it
    try:
        os.kill(pid, _ASK)
    except ProcessLookupError:
        return None
    until = time.monotonic() + within
    text = ""
    while time.monotonic() < until:
        time.sleep(0.02)
        before, text = text, path.read_text(errors="replace")
        if text and text == before:
            break
    return main_thread(text) or None


def main_thread(dump: str) -> tuple[Frame, ...]:
    """Return the learner's lines in the main thread, innermost first, from faulthandler's output.

    If there are none, return the line in torch's worker loop.
    """
    # faulthandler lists the newest thread first and the main thread last. From Python 3.14 on, a
    # crash's C functions follow.
    last = dump.partition("\nCurrent thread's C stack")[0].rpartition("(most recent call first):")[
        2
    ]
    calls = [(file, int(line), function) for file, line, function in _LINE.findall(last)]
    # In a forked worker, the stack continues below the worker's loop with main's stack at the fork.
    loop = next((i for i, call in enumerate(calls) if call[2] == "_worker_loop"), len(calls))
    yours = [call for call in calls[:loop] if is_yours(call[0])] or calls[loop : loop + 1]
    return tuple(
        frame(file, line, function, linecache.getline(file, line).strip())
        for file, line, function in yours
    )


def _answers(folder: str, pid: int) -> Path:
    return Path(folder) / f"stack-{pid}"
