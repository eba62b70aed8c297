"""Define `confine()`, which runs a loader or a script in a child interpreter under limits."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dltutor import DltutorError
from dltutor.observation.confinement.asked import read_open_files, read_size, read_target
from dltutor.observation.confinement.calling import leave_call
from dltutor.observation.confinement.child import observe_made
from dltutor.observation.confinement.results import observation_of
from dltutor.observation.confinement.supervisor import run, workspace
from dltutor.observation.confinement.task import FIRST_CHOICE, Task
from dltutor.observation.report import Observation
from dltutor.observation.time_limits import check_deadline, check_main_thread
from dltutor.tables import size

_START: Final = 60.0  # the fewest seconds to allow for importing torch and building the loader
_END: Final = 10.0  # the most seconds for the child to end the run and clean up after its deadline


class CannotConfine(DltutorError, RuntimeError):
    """This machine doesn't permit a limit that has no substitute, or the child couldn't start."""


def confine(
    target: Callable[..., Any] | Path | str,
    *,
    memory: int | str | None = None,
    shm: int | str | None = None,
    open_files: int | None = None,
    deadline: float = 30,
    **options: Any,
) -> Observation:
    """Run a loader or a script in a child interpreter under limits, and report what happened.

    The operating system enforces the limits: a cgroup (version 1 or 2) for memory, a mount
    namespace for `/dev/shm`, and RLIMIT_NOFILE for open files. If users may make user namespaces, a
    private `/dev/shm` doesn't need root.

    If the system doesn't permit a cgroup, a watchdog replaces the OOM killer. The watchdog sends
    SIGKILL to the largest worker, or to the largest process if there are no workers, when all
    processes together pass the limit, and the Observation says so. Set DLTUTOR_WATCHDOG=1 to always
    use the watchdog. There is no such substitute for the other limits.

    The OOM killer kills the process that it considers the largest, which is often main, because
    torch's pages count for every process that has touched them. So `confine` adds 1000 to each
    worker's `oom_score_adj`, which counts as much as the whole limit, and the Observation says so
    next to the limit. On our machine, Python, torch, and two forked workers need about 180 MB of
    the limit.

    Afterward, no new process, cgroup, mount, temporary file, or `/dev/shm` segment is left, even
    if you press Stop or this process is killed.

    Args:
        target: A function that returns a DataLoader or a Case, from a module that the child can
            import, or the path of a script, which the child runs as its main program. `confine`
            sees only a script's exit code, output, and memory.
        memory: The limit for all processes together, in bytes or as a string such as "300M" or
            "1G".
        shm: The size of the child's own `/dev/shm`, in bytes or as a string such as "64M".
        open_files: How many descriptors each process may have open.
        deadline: How many seconds the loader may run. For a script, this includes the start.
        options: Keyword arguments for the function.

    Returns:
        The Observation, with `confinement`. If the child's main process died, `end` is "main died".
        The Observation has main's output only if main died, was killed at the deadline, or is a
        script.

    Raises:
        TypeError: `target` isn't a function or a path, returns neither a DataLoader nor a Case, or
            doesn't take these options. Or the options can't be pickled.
        ValueError: A limit or the deadline is out of range, the child couldn't import `target`, or
            the script's name doesn't end in ".py".
        FileNotFoundError: There is no such script.
        CannotConfine: The system doesn't permit `shm` or `open_files`, or the child couldn't start.
        RuntimeError: This isn't the main thread, so Stop wouldn't reach `confine`. Or the process
            between this one and the child was killed.
        KeyboardInterrupt: You pressed Stop. By then, everything is cleaned up.
    """
    memory, shm = read_size("memory", memory), read_size("shm", shm)
    open_files = read_open_files(open_files)
    found = read_target(target, options)
    check_deadline(deadline)
    check_main_thread("confine()", "Stop end it")
    script = isinstance(found, Path)
    with workspace() as (folder, interrupts):
        if isinstance(found, Path):
            argv = [sys.executable, str(found)]
        else:
            added_score = 0 if memory is None else FIRST_CHOICE
            call = (str(folder), found, options, deadline, added_score)
            try:
                argv = leave_call(folder, observe_made, *call)
            except Exception as error:
                name = found.partition(":")[2]
                raise TypeError(f"the options of {name} must be picklable: {error}") from error
        task = Task(
            argv,
            str(folder),
            seconds=deadline if script else max(deadline, _START),
            seconds_observing=None if script else deadline + _END,
            memory=memory,
            shm=shm,
            open_files=open_files,
        )
        report, recorded = run(task, interrupts, record=script)
        if report.refused is not None:
            raise CannotConfine(_refusal(task, *report.refused))
        return observation_of(task, report, deadline, recorded)


def _refusal(task: Task, limit: str, why: str) -> str:
    if limit == "shm" and task.shm is not None:
        return (
            f"shm: this machine doesn't permit the child its own /dev/shm of {size(task.shm)} "
            f"({why}). It needs root with CAP_SYS_ADMIN, or user namespaces, and most containers "
            "have neither of them"
        )
    if limit == "open_files":
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return f"open_files: {task.open_files} isn't permitted here ({why}). The most is {most}"
    return f"the child interpreter couldn't be started: {why}"
