"""Define a supervisor's Task and Report, without imports that need site-packages."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dltutor.system import marks

#: How much to add to each worker's oom_score_adj. With 1000, the OOM killer adds the whole memory
#: limit to the worker's size.
FIRST_CHOICE: Final = 1000


@dataclass(frozen=True)
class Task:
    """A child to run, with its limits, as a task for the supervisor.

    A child that `confine` starts for a loader makes the file `observing` in the folder as it starts
    the loader. Other children, such as a script, don't.

    Args:
        argv: The child's command line.
        folder: The folder for everything that the child and its workers write.
        seconds: How many seconds the child may run before it makes `observing`, or in total if it
            never does.
        seconds_observing: How many seconds the child may run after it has made `observing`, or None
            if it never does.
        memory: The memory limit in bytes, or None for no limit.
        shm: The size in bytes of a `/dev/shm` for the child alone, or None to keep the shared one.
        open_files: How many descriptors a process may have open, or None to keep the limit.
        parent: The pid of the process that waits for the report.
        mark: The mark for the supervisor and everything that it starts (see
            `dltutor.system.marks`).
    """

    argv: list[str]
    folder: str
    seconds: float
    seconds_observing: float | None = None
    memory: int | None = None
    shm: int | None = None
    open_files: int | None = None
    parent: int = field(default_factory=os.getpid)
    mark: int = field(default_factory=marks.new)


@dataclass
class Report:
    """The supervisor's report on what happened to the child.

    `Confinement` explains `oom_kills`, `peak`, `kernel_log`, and `watchdog`. In a Report, the last
    two have pids instead of names.

    Args:
        pid: The child's pid, or 0 if the child never started.
        exitcode: The child's exit code, negative for a signal, or None if the child never started
            or the supervisor stopped it.
        stopped: Whether the supervisor stopped the child because its time was up.
        seconds: How many seconds the child ran.
        refused: If the child never started, the limit that the system doesn't permit ("python" if
            the program itself couldn't start), and the error message. Otherwise None.
        cgroup: The version of the child's cgroup, or None without a cgroup.
        no_cgroup: Why there was no cgroup despite a memory limit.
    """

    pid: int = 0
    exitcode: int | None = None
    stopped: bool = False
    seconds: float = 0.0
    refused: tuple[str, str] | None = None
    cgroup: int | None = None
    no_cgroup: str = ""
    oom_kills: int | None = None
    peak: int | None = None
    kernel_log: list[str] | None = None
    watchdog: tuple[int, ...] = ()


def worker_numbers(folder: str) -> dict[int, int]:
    """Return each started worker's number, by pid, from the file `workers` in a Task's folder."""
    try:
        lines = (Path(folder) / "workers").read_text().splitlines()
    except OSError:
        return {}
    return {int(pid): int(number) for pid, number in (line.split() for line in lines)}
