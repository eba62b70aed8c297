"""Start a child interpreter, which sets limits on itself between `fork` and `exec`."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Sequence
from typing import Final, NoReturn

from dltutor.system import cgroups, mounts
from dltutor.system.processes import die_with_parent

# Reset these signals, because the child inherits how its parent treats them. Python ignores the
# last two, and the supervisor ignores SIGINT and handles SIGTERM.
_RESET: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)


class Refused(Exception):
    """The system doesn't permit a limit, or the child couldn't start.

    Args:
        limit: "memory", "shm", or "open_files", or "python" if the child couldn't start.
        why: The system's error message.
    """

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(limit, why)
        self.limit = limit
        self.why = why


def start(
    argv: Sequence[str],
    *,
    output: str,
    group: cgroups.Group | None,
    shm: int | None,
    open_files: int | None,
) -> int:
    """Start a program under limits, with an empty standard input and its output in a file.

    Call this from a single-threaded process. Linux kills the program when this process ends.

    Args:
        argv: The program and its arguments.
        output: The file for the program's standard output and error.
        group: The cgroup to start the program in, or None to use this process's cgroup.
        shm: The size in bytes of a private `/dev/shm`, or None to share this process's.
        open_files: How many descriptors the program may have open, or None for our own limit.

    Returns:
        The program's pid.

    Raises:
        Refused: The system doesn't permit a limit, or the program couldn't start.
    """
    parent = os.getpid()
    answer, theirs = os.pipe()  # exec closes `theirs`, so that the read below ends
    pid = os.fork()
    if pid == 0:
        limit = "memory"
        try:
            if group is not None:
                group.enter()
            limit = "open_files"
            if open_files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
            limit = "shm"
            if shm is not None:
                mounts.own_shm(shm)
            limit = "python"
            die_with_parent(parent)  # after `own_shm`, whose new user namespace would undo this
            _run(argv, output)
        except BaseException as error:
            why = error.strerror if isinstance(error, OSError) else None
            os.write(theirs, json.dumps([limit, why or str(error)]).encode())
        finally:
            os._exit(1)
    os.close(theirs)
    with os.fdopen(answer, "rb") as file:
        refusal = file.read()
    if refusal:
        os.waitpid(pid, 0)
        raise Refused(*json.loads(refusal))
    return pid


def _run(argv: Sequence[str], output: str) -> NoReturn:
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # so that a crash leaves no core file behind
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.execv(argv[0], list(argv))
