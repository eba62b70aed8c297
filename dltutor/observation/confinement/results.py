"""Put together a confined run's results.

The results are an Observation and a Confinement, which holds the limits and the evidence for them.
If the child left no Observation, we make one from what we saw of the child from outside.
"""

from __future__ import annotations

import math
import pickle
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from dltutor.observation.confinement.calling import answer
from dltutor.observation.confinement.task import FIRST_CHOICE, Report, Task, worker_numbers
from dltutor.observation.memory.collector import Collector
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import FIELDS, Bounds
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.record import Confinement, End, Frame
from dltutor.observation.report import Observation
from dltutor.observation.stacks import main_thread
from dltutor.observation.texts import end_of_file
from dltutor.system.process_memory import reader
from dltutor.tables import size

_PID: Final = re.compile(r"(?<=process )\d+")  # finds the pid in a line about a kill


def observation_of(
    task: Task, report: Report, deadline: float, recorded: Timeline | None = None
) -> Observation:
    """Return the child's Observation, or one made from outside if the child left none.

    Add the Confinement. If the watchdog or the OOM killer killed a worker that the child still
    reported as running, correct that worker's exit code. For a script, `recorded` is the timeline
    that was recorded from outside.

    Raises:
        TypeError: The target returned neither a loader nor a Case.
        RuntimeError: The child's call to `observe` raised this error.
    """
    try:
        seen, from_outside = answer(Path(task.folder)), False
    except FileNotFoundError:
        seen, from_outside = _from_outside(task, report, deadline, recorded), True
    workers = worker_numbers(task.folder)
    confinement = _confinement(task, report, workers, from_outside=from_outside)
    return replace(_with_kills(seen, report, workers), confinement=confinement)


def timeline_of(moments: Iterable[Moment], note: str) -> Timeline:
    """Make a Timeline from the moments that a listener received, with a note on what is missing."""
    collector = Collector(0, math.inf)
    pids = {"main": 0}  # role -> a number, because a moment doesn't have pids
    before: set[str] = set()
    for moment in moments:
        for role in moment.processes:
            collector.names[pids.setdefault(role, len(pids))] = role
        line = {
            "processes": {
                pids[role]: {field: getattr(reading, field) for field in FIELDS}
                for role, reading in moment.processes.items()
            },
            "gone": [pids[role] for role in before - moment.processes.keys()],
            "memory": None,
            **{name: getattr(moment, name) for name in ("seconds", "shm", "available", "cgroup")},
        }
        collector.add(line, moment.batches)
        before = {*moment.processes}
    return replace(collector.timeline(), notes=(note,))


def _with_kills(seen: Observation, report: Report, numbers: dict[int, int]) -> Observation:
    # A killed process takes a while to die, so the child may have reported it as running.
    killed = set(report.watchdog)
    for line in report.kernel_log or ():
        killed.update(map(int, _PID.findall(line)))
    last = {number: pid for pid, number in numbers.items()}
    workers = tuple(
        replace(each, exitcode=-signal.SIGKILL)
        if each.exitcode is None and last.get(each.number) in killed
        else each
        for each in seen.workers
    )
    died = {each.name: each.fate for each in workers if each not in seen.workers}
    # If several epochs had a worker with this name, the worker that died is the last one.
    lives = {life.role: life for life in seen.timeline.processes}
    processes = tuple(
        replace(life, died=died[life.role])
        if life is lives[life.role] and life.role in died
        else life
        for life in seen.timeline.processes
    )
    return replace(seen, workers=workers, timeline=replace(seen.timeline, processes=processes))


def _confinement(
    task: Task, report: Report, workers: dict[int, int], *, from_outside: bool
) -> Confinement:
    roles = {report.pid: "main"} | {pid: f"W{number}" for pid, number in workers.items()}
    log = report.kernel_log
    if log is not None:
        # Change "... Killed process 1234 (pt_data_worker)" to "... Killed process W0 (...)".
        log = [_PID.sub(lambda pid: roles.get(int(pid[0]), "another"), line) for line in log]
    return Confinement(
        limits=tuple(_limits(task, report, workers=bool(workers))),
        memory=task.memory,
        stand_in=task.memory is not None and report.cgroup is None,
        oom_kills=report.oom_kills,
        peak=report.peak,
        kernel_log=None if log is None else tuple(log),
        watchdog=tuple(roles.get(pid, "a process") for pid in report.watchdog),
        from_outside=from_outside,
        exitcode=report.exitcode if from_outside else None,
    )


def _limits(task: Task, report: Report, *, workers: bool) -> Iterator[str]:
    if task.memory is not None and report.cgroup is not None:
        how = f"enforced by the kernel, with a cgroup (version {report.cgroup})"
        yield f"memory {size(task.memory)}: {how}"
        if workers:
            yield (
                f"workers first: +{FIRST_CHOICE} on each worker's oom_score_adj, so that Linux "
                "kills a worker before main"
            )
    elif task.memory is not None:
        yield (
            f"memory {size(task.memory)}: enforced by a watchdog that sends SIGKILL as the OOM "
            f"killer does, because no cgroup can be made here ({report.no_cgroup})"
        )
        if workers:
            yield "workers first: the watchdog kills the largest of them before main"
    if task.shm is not None:
        yield f"/dev/shm {size(task.shm)}: the child's own, in a mount namespace"
    if task.open_files is not None:
        how = "enforced by the kernel, with RLIMIT_NOFILE"
        yield f"open files {task.open_files} for each process: {how}"


def _from_outside(
    task: Task, report: Report, deadline: float, recorded: Timeline | None
) -> Observation:
    script, exitcode = task.seconds_observing is None, report.exitcode
    end: End = "main died"
    if report.stopped:
        end = "hung"
    elif script and exitcode == 0:
        end = "finished"
    elif script and (exitcode or 0) > 0:
        end = "raised"
    return Observation(
        end=end,
        deadline=deadline,
        seconds=report.seconds,
        timeline=_timeline(task, report, recorded),
        traceback=_last_stack(task, report),
        stderr=end_of_file(Path(task.folder) / "output"),
    )


def _timeline(task: Task, report: Report, recorded: Timeline | None) -> Timeline:
    if recorded is None:
        limits = Bounds(reader().total(), shm=task.shm)
        if report.cgroup is not None:
            limits = replace(limits, cgroup=task.memory)
        made = timeline_of(_moments(Path(task.folder)), "main's last moments weren't sampled")
        return replace(made, limits=limits)
    if task.shm is None:
        return recorded
    return replace(
        recorded,
        shm=np.full_like(recorded.shm, math.nan),
        limits=replace(recorded.limits, shm=task.shm),
        notes=(*recorded.notes, "the script's own /dev/shm couldn't be sampled"),
    )


def _moments(folder: Path) -> Iterator[Moment]:
    # The last moment in the file is cut off if main died while writing it.
    with (
        suppress(OSError, EOFError, pickle.UnpicklingError),
        (folder / "moments").open("rb") as file,
    ):
        while True:
            yield pickle.load(file)


def _last_stack(task: Task, report: Report) -> tuple[Frame, ...]:
    # When the deadline passes, the child writes its stack to a file. When the child crashes,
    # faulthandler writes the stack to the child's stderr.
    for name in (f"stack-{report.pid}", "output"):
        if "(most recent call first):" in (dump := end_of_file(Path(task.folder) / name)):
            return main_thread(dump)[::-1]
    return ()
