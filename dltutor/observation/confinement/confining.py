"""confine(): run a loader or a script in a child interpreter under real limits."""

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

_START: Final = 60.0  # seconds, at least, for the child to import torch and to build the loader
_END: Final = 10.0  # seconds for it to end the run and tidy up after its deadline


class CannotConfine(DltutorError, RuntimeError):
    """This machine does not permit a limit, and nothing can stand in for it."""


def confine(
    target: Callable[..., Any] | Path | str,
    *,
    memory: int | str | None = None,
    shm: int | str | None = None,
    open_files: int | None = None,
    deadline: float = 30,
    **options: Any,
) -> Observation:
    """Run a loader, or a script, in a child interpreter under limits, and say what happened.

    The limits are the kernel's own: a cgroup for memory (version 1 or 2), a mount
    namespace for `/dev/shm`, RLIMIT_NOFILE for open files. A `/dev/shm` of one's own needs no root
    where users may make user namespaces.

    Where no cgroup can be made, a watchdog stands in for the OOM killer: it sends SIGKILL to
    the largest worker when all processes together pass the limit, and the Observation says so. Set
    DLTUTOR_WATCHDOG=1 to have it in any case. For the other two limits nothing stands in.

    The kernel kills the process that it finds largest. Because the pages of torch count for every
    process that has touched them, that's often main. So each worker is put forward
    (`oom_score_adj`) as if the whole limit were its own, and the Observation says so where it
    shows the limit. Python, torch, and two forked workers need about 180 MB of it.

    Afterwards there is no process, cgroup, mount, temporary file or `/dev/shm` segment more
    than before, also if you press Stop, and also if this process is killed meanwhile.

    Args:
        target: A function that returns a DataLoader, or a Case, from a module that the child can
            import; or the path of a script, which is run as `python FILE` runs it. A script is
            seen from outside only: its exit code, what it wrote, its memory.
        memory: Limit for all processes together, in bytes or as text such as "300M" or "1G".
        shm: The size of `/dev/shm`, likewise.
        open_files: How many descriptors each process may have open.
        deadline: Seconds, as in `observe`. Only of a script does it include the start.
        options: Keyword arguments for the function.

    Returns:
        The Observation, with `confinement`. If the child's main process died, `end` is "main died".
        What main printed is not kept, unless it died.

    Raises:
        TypeError: `target` is no function or path, returns neither a DataLoader nor a Case,
            or does not take these options.
        ValueError: A limit or the deadline is out of range, or the child cannot import `target`.
        FileNotFoundError: There is no such script.
        CannotConfine: `shm` or `open_files` is not permitted here.
        RuntimeError: Called outside the main thread, where Stop would not reach it.
        KeyboardInterrupt: You pressed Stop; everything is cleaned up first.
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
            put_forward = 0 if memory is None else FIRST_CHOICE
            call = (str(folder), *found, options, deadline, put_forward)
            try:
                argv = leave_call(folder, observe_made, *call)
            except Exception as error:
                raise TypeError(f"the options of {found[1]} must be picklable: {error}") from error
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
            f"shm: a /dev/shm of {size(task.shm)} for the child alone is not permitted here "
            f"({why}). It needs root with CAP_SYS_ADMIN, or user namespaces; most containers "
            f"have neither"
        )
    if limit == "open_files":
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return f"open_files: {task.open_files} are not permitted here ({why}); at most {most}"
    return f"the child interpreter could not be started: {why}"
