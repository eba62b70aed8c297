"""A supervisor's Task, and its Report. This module needs only the standard library."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dltutor.system import marks

#: Added to each worker's oom_score_adj: the whole memory limit counts as the worker's own.
FIRST_CHOICE: Final = 1000


@dataclass(frozen=True)
class Task:
    """What the supervisor is to do.

    Args:
        argv: The child's command line.
        folder: For all that the child and its workers write.
        seconds: How long the child may take, or may take before it makes the file `observing`.
        seconds_observing: How long from there on; None if it makes no such file.
        memory: Limit in bytes, or None.
        shm: The size of its own `/dev/shm` in bytes, or None.
        open_files: Limit, or None.
        parent: The pid of the process that waits for the report.
        mark: For the supervisor and all that it starts (see `dltutor.system.marks`).
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
    """What happened to the child.

    Args:
        pid: Its pid.
        exitcode: Its exit code; negative for a signal; None if it was stopped.
        stopped: Whether it was stopped because its time was over.
        seconds: How long it ran.
        refused: The limit that the system does not permit, and why; then nothing was run.
        cgroup: The version of its cgroup, or None without one.
        no_cgroup: Why there was none.
        oom_kills: The group's own count of kills.
        peak: The most memory in use in the group, in bytes.
        kernel_log: The kernel's lines about the kills; None where they may not be read.
        watchdog: The pids that the watchdog killed.
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
    """Return the number of each worker that has started, by its pid.

    Args:
        folder: The Task's.
    """
    try:
        lines = (Path(folder) / "workers").read_text().splitlines()
    except OSError:
        return {}
    return {int(pid): int(number) for pid, number in (line.split() for line in lines)}
