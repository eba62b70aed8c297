"""Run the supervisor, a small process that starts a child under limits, waits, and cleans up.

The supervisor is a process between the caller's process and the child, so it can clean up no matter
how either of them ends. The supervisor ends the processes, and removes the cgroup, what the
processes left in `/dev/shm`, and, if the caller is gone, the task's folder. Outside dltutor, this
module imports only the standard library.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from dltutor.observation import stacks
from dltutor.observation.confinement import start_child
from dltutor.observation.confinement.task import Report, Task
from dltutor.observation.confinement.watchdog import Watchdog
from dltutor.system import cgroups, marks
from dltutor.system.kernel_log import KernelLog
from dltutor.system.processes import adopt_orphans, end_descendants

_TICK: Final = 0.05  # seconds between two checks on the child and the caller
_ANSWER: Final = 2.0  # the most seconds for the child to write its stack


def main(options: dict[str, Any]) -> None:
    """Run the Task whose fields are in `options`, and report on stdout, in lines of JSON.

    Write the child's pid as soon as the child starts, and the Report as the last line.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    adopt_orphans()
    task, report, log = Task(**options), Report(), KernelLog()
    marks.put(task.mark)
    group = None
    start = partial(
        start_child.start,
        task.argv,
        output=os.path.join(task.folder, "output"),
        shm=task.shm,
        open_files=task.open_files,
    )
    try:
        cgroups.remove_abandoned()
        group = _make_group(task, report)
        try:
            report.pid = start(group=group)
        except start_child.Refused as refused:
            if refused.limit != "memory" or group is None:
                raise
            group.remove()  # the system let us make the group, but not enter it
            group, report.no_cgroup = None, refused.why
            report.pid = start(group=None)
        _tell({"started": report.pid})
        _wait(task, report)
    except start_child.Refused as refused:
        report.refused = refused.limit, refused.why
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_descendants(task.mark)
        if group is not None:
            report.cgroup, report.kernel_log = group.version, log.kills(group.folder.name)
            report.oom_kills, report.peak = group.kills, group.peak
            group.remove()
        # When the caller ends, our input closes a moment before our parent changes, so check both.
        if _nobody_waits(task.parent, within=0):
            shutil.rmtree(task.folder, ignore_errors=True)
    _tell(asdict(report))


def _make_group(task: Task, report: Report) -> cgroups.Group | None:
    if task.memory is None:
        return None
    try:
        if os.environ.get("DLTUTOR_WATCHDOG"):
            raise OSError("DLTUTOR_WATCHDOG is set")
        return cgroups.make(task.memory)
    except OSError as error:
        report.no_cgroup = error.strerror or str(error)
        return None


def _wait(task: Task, report: Report) -> None:
    watchdog = None
    if task.memory is not None and report.no_cgroup:
        watchdog = Watchdog(task.memory, task.folder)
    observing = Path(task.folder) / "observing"
    started = time.monotonic()
    stop_at, seconds_observing = started + task.seconds, task.seconds_observing
    while not _nobody_waits(task.parent):
        try:
            pid, status = os.waitpid(report.pid, os.WNOHANG)
        except ChildProcessError:  # the watchdog has killed and reaped the child
            pid, status = report.pid, signal.SIGKILL
        report.seconds = time.monotonic() - started
        if pid:
            report.exitcode = os.waitstatus_to_exitcode(status)
            break
        if seconds_observing is not None and observing.exists():
            stop_at, seconds_observing = time.monotonic() + seconds_observing, None
        if time.monotonic() > stop_at:
            report.stopped = True
            if task.seconds_observing is not None:  # the child can write its stack
                stacks.ask(task.folder, report.pid, within=_ANSWER)
            break
        if watchdog is not None:
            watchdog.look()
            report.watchdog = tuple(watchdog.killed)


def _nobody_waits(parent: int, within: float = _TICK) -> bool:
    # When the caller ends, our input closes, unless another process has inherited the other end. So
    # check our parent, too.
    return bool(select.select([0], [], [], within)[0]) or os.getppid() != parent


def _tell(line: dict[str, Any]) -> None:
    try:
        os.write(1, json.dumps(line).encode() + b"\n")
    except BrokenPipeError:  # the caller is gone
        sys.exit(1)
