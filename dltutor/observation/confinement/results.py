"""Put together what is known after a confined run.

That's the Observation that the child has answered, or else what was seen of it from outside; and
its Confinement: the limits, and the evidence for them.
"""

from __future__ import annotations

import math
import pickle
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from dltutor.observation.confinement.calling import answer
from dltutor.observation.confinement.task import FIRST_CHOICE, Report, Task, worker_numbers
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.timeline import FIELDS, Bounds, ProcessCurves, Timeline
from dltutor.observation.report import End, Frame, Observation
from dltutor.observation.stacks import main_thread
from dltutor.observation.texts import end_of_file
from dltutor.system.process_memory import reader
from dltutor.tables import size

_PID: Final = re.compile(r"(?<=process )\d+")  # in the kernel's line about a kill


@dataclass(frozen=True)
class Confinement:
    """The limits of a run in `confine`, and the evidence of them.

    Args:
        limits: A sentence for each limit: how much, and enforced by whom; and one about the order
            in which processes are killed, if `confine` arranged it.
        memory: The memory limit in bytes, or None.
        stand_in: Whether a watchdog stood in for the kernel's OOM killer.
        oom_kills: How many processes the kernel killed at the limit, by the cgroup's own
            count; None without a cgroup.
        peak: The most memory in use at once, in bytes, by the cgroup's own count; None where
            that is not known.
        kernel_log: The kernel's own lines about the kills, with W0 or main for the pid; None where
            they may not be read.
        watchdog: Whom the watchdog killed, such as "W0".
        from_outside: Whether the main process was seen from outside only: a script, or one that
            died or had to be killed. Then no batches are counted.
        exitcode: Its exit code if so, negative for a signal; None if it was killed at its deadline.
    """

    limits: tuple[str, ...] = ()
    memory: int | None = None
    stand_in: bool = False
    oom_kills: int | None = None
    peak: int | None = None
    kernel_log: tuple[str, ...] | None = None
    watchdog: tuple[str, ...] = ()
    from_outside: bool = False
    exitcode: int | None = None

    def rows(self) -> list[tuple[str, str]]:
        """The rows that an Observation shows: the same on every run."""
        rows = [("limits", "\n".join(self.limits))] if self.limits else []
        if self.oom_kills is not None:
            rows.append(("kernel", "\n".join(self._kernel())))
        if self.stand_in:
            rows.append(("watchdog", f"sent SIGKILL to {', '.join(self.watchdog) or 'nobody'}"))
        return rows

    def _kernel(self) -> list[str]:
        lines = [f"OOM kills, by the cgroup's own count: {self.oom_kills}"]
        if self.oom_kills and self.kernel_log is None:
            lines.append("its log may not be read here")
        # What follows the name are sizes, which differ from run to run.
        return lines + [re.sub(r"\).*", ")", line) for line in self.kernel_log or ()]


def observation_of(
    task: Task, report: Report, deadline: float, recorded: Timeline | None = None
) -> Observation:
    """Return the child's Observation, or else one of what was seen of it from outside.

    Args:
        task: What was run. Its folder has everything that the child wrote.
        report: The supervisor's.
        deadline: In seconds.
        recorded: The timeline of a script, taken from outside.

    Raises:
        TypeError: The target did not return a loader.
    """
    try:
        seen, from_outside = answer(Path(task.folder)), False
    except FileNotFoundError:
        seen, from_outside = _from_outside(task, report, deadline, recorded), True
    workers = worker_numbers(task.folder)
    confinement = _confinement(task, report, workers, from_outside=from_outside)
    return replace(_with_kills(seen, report, workers), confinement=confinement)


def timeline_of(
    moments: Sequence[Moment],
    *notes: str,
    limits: Bounds = Bounds(),  # noqa: B008
) -> Timeline:
    """Make a Timeline of the moments that a listener was given.

    Args:
        moments: In the order of time.
        notes: What is missing in the chart.
        limits: What bounds the memory.
    """
    roles = dict.fromkeys(role for moment in moments for role in moment.processes)
    return Timeline(
        seconds=_column(moment.seconds for moment in moments),
        batches=np.array([moment.batches for moment in moments], dtype=np.int64),
        shm=_column(moment.shm for moment in moments),
        available=_column(moment.available for moment in moments),
        cgroup=_column(moment.cgroup for moment in moments),
        processes=tuple(_life(role, moments) for role in roles),
        limits=limits or Bounds(),
        notes=notes,
    )


def _life(role: str, moments: Sequence[Moment]) -> ProcessCurves:
    rows = [row for row, moment in enumerate(moments) if role in moment.processes]
    seen = [moment.processes.get(role, Reading()) for moment in moments[rows[0] : rows[-1] + 1]]
    values = {field: _column(getattr(each, field) for each in seen) for field in FIELDS}
    gone = rows[-1] + 1 < len(moments)
    return ProcessCurves(role, rows[0], values, moments[rows[-1] + 1].seconds if gone else None)


def _column(values: Iterable[float | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _with_kills(seen: Observation, report: Report, numbers: dict[int, int]) -> Observation:
    # It takes a while for a killed process to be dead: the child may have seen it running.
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
    # Of several workers with one name, in several epochs, the last one is meant.
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
    log = report.kernel_log
    roles = {report.pid: "main"} | {pid: f"W{number}" for pid, number in workers.items()}
    return Confinement(
        limits=tuple(_limits(task, report, workers=bool(workers))),
        memory=task.memory,
        stand_in=task.memory is not None and report.cgroup is None,
        oom_kills=report.oom_kills,
        peak=report.peak,
        kernel_log=None if log is None else tuple(_name(line, roles) for line in log),
        watchdog=tuple(roles.get(pid, "a process") for pid in report.watchdog),
        from_outside=from_outside,
        exitcode=report.exitcode if from_outside else None,
    )


def _limits(task: Task, report: Report, *, workers: bool) -> Iterator[str]:
    """For each limit, how much it is and who enforced it; and who was to be killed first."""
    if task.memory is not None and report.cgroup is not None:
        how = f"enforced by the kernel, with a cgroup (version {report.cgroup})"
        yield f"memory {size(task.memory)}: {how}"
        if workers:
            yield (
                f"workers first: +{FIRST_CHOICE} on each worker's oom_score_adj, as if the "
                "whole limit were its own"
            )
    elif task.memory is not None:
        yield (
            f"memory {size(task.memory)}: not by the kernel, since no cgroup can be made here "
            f"({report.no_cgroup}); a watchdog that sends the same SIGKILL stood in for the OOM "
            "killer"
        )
        if workers:
            yield "workers first: the watchdog kills the largest of them before main"
    if task.shm is not None:
        yield f"/dev/shm {size(task.shm)}: one of its own, in a mount namespace"
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
        traceback=_stood_at(task, report),
        stderr=end_of_file(Path(task.folder) / "output"),
    )


def _timeline(task: Task, report: Report, recorded: Timeline | None) -> Timeline:
    if recorded is None:
        limits = Bounds(reader().total(), shm=task.shm)
        if report.cgroup is not None:
            limits = replace(limits, cgroup=task.memory)
        moments = list(_moments(Path(task.folder)))
        return timeline_of(moments, "main's last moments were not sampled", limits=limits)
    if task.shm is None:
        return recorded
    return replace(
        recorded,
        shm=np.full_like(recorded.shm, math.nan),
        limits=replace(recorded.limits, shm=task.shm),
        notes=(*recorded.notes, "the script's own /dev/shm could not be sampled"),
    )


def _moments(folder: Path) -> Iterator[Moment]:
    # The last one may be cut off.
    with (
        suppress(OSError, EOFError, pickle.UnpicklingError),
        (folder / "moments").open("rb") as file,
    ):
        while True:
            yield pickle.load(file)


def _stood_at(task: Task, report: Report) -> tuple[Frame, ...]:
    # Asked at its deadline it answers in a file; when it crashes, faulthandler writes to 2.
    for name in (f"stack-{report.pid}", "output"):
        if "(most recent call first):" in (dump := end_of_file(Path(task.folder) / name)):
            return main_thread(dump)[::-1]
    return ()


def _name(line: str, roles: dict[int, str]) -> str:
    # From "... Killed process 1234 (pt_data_worker) ..." to "... Killed process W0 (...) ...".
    return _PID.sub(lambda pid: roles.get(int(pid[0]), "another"), line)
