"""Ask a stuck worker for its stack, by a signal that faulthandler answers.

The handler is C code, so it answers even if Python is stuck in a lock or in a library. It needs no
privilege, unlike a debugger that attaches from outside.
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
from dltutor.observation.report import Frame

_ASK: Final = signal.SIGUSR2
_ANSWER: Final = 1.0  # seconds for a worker to answer
_LINE: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def answer_when_asked(folder: str) -> None:
    """Have this process write its stacks into `folder` whenever it is asked."""
    # faulthandler keeps the file open.
    faulthandler.register(_ASK, file=_answers(folder, os.getpid()).open("w"), all_threads=True)


def ask(folder: str, pid: int) -> tuple[Frame, ...] | None:
    """Ask a worker where it stands.

    Args:
        folder: The folder given to `answer_when_asked`.
        pid: The worker.

    Returns:
        The learner's lines in its main thread, innermost first, or the line of torch's worker loop
        if there are none. None if the worker doesn't listen yet, or doesn't answer.
    """
    path = _answers(folder, pid)
    if not path.exists():
        return None  # nobody listens: the signal would kill it
    try:
        os.kill(pid, _ASK)
    except ProcessLookupError:
        return None
    return main_thread(_wait_for(path)) or None


def main_thread(dump: str) -> tuple[Frame, ...]:
    """The short stack of the main thread in what faulthandler wrote, innermost call first."""
    # Threads are listed newest first: the main thread is the last. From Python 3.14 on the C
    # functions of a crash follow.
    last = dump.partition("\nCurrent thread's C stack")[0].rpartition("(most recent call first):")[
        2
    ]
    calls = [(file, int(line), function) for file, line, function in _LINE.findall(last)]
    # A forked worker's stack goes on below its loop, with what main was doing when it forked.
    loop = next((i for i, call in enumerate(calls) if call[2] == "_worker_loop"), len(calls))
    yours = [call for call in calls[:loop] if is_yours(call[0])] or calls[loop : loop + 1]
    return tuple(
        frame(file, line, function, linecache.getline(file, line).strip())
        for file, line, function in yours
    )


def _answers(folder: str, pid: int) -> Path:
    return Path(folder) / f"stack-{pid}"


def _wait_for(path: Path) -> str:
    until = time.monotonic() + _ANSWER
    text = ""
    while time.monotonic() < until:
        time.sleep(0.02)
        before, text = text, path.read_text(errors="replace")
        if text and text == before:
            break
    return text
