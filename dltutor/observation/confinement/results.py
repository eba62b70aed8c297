"""What is known after a confined run: the child's Observation, or what was seen from outside.

And the Confinement that goes with either: its limits, and the evidence of them.
"""

from __future__ import annotations

import math
import pickle
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from dltutor.observation.confinement.asked_limits import ResourceLimits
from dltutor.observation.confinement.task import Report, worker_numbers
from dltutor.observation.confinement.unobserved import timeline_of, unobserved
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Bounds
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.report import End, Frame, Observation
from dltutor.observation.stacks import main_thread
from dltutor.observation.texts import end_of_file
from dltutor.system.process_memory import reader

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


@dataclass(frozen=True)
class Ended:
    """What is known of a run that has ended.

    Args:
        folder: All that the child wrote.
        limits: What it ran under.
        report: The supervisor's.
        deadline: In seconds.
        script: Whether the child was a script.
        recorded: A timeline taken from outside, or None.
    """

    folder: Path
    limits: ResourceLimits
    report: Report
    deadline: float
    script: bool
    recorded: Timeline | None


def observation_of(run: Ended) -> Observation:
    """The Observation that the child handed over, or else what was seen of it from outside.

    Raises:
        TypeError: The target did not return a loader.
    """
    handed_over = _handed_over(run.folder)
    if isinstance(handed_over, TypeError):
        raise handed_over
    confinement = _confinement(run, from_outside=handed_over is None)
    return replace(_with_kills(handed_over or _from_outside(run), run), confinement=confinement)


def _handed_over(folder: Path) -> Observation | TypeError | None:
    try:
        data = (folder / "observation").read_bytes()
    except FileNotFoundError:
        return None
    found: Observation | TypeError = pickle.loads(data)
    return found


def _with_kills(seen: Observation, run: Ended) -> Observation:
    # It takes a while for a killed process to be dead: the child may have seen it running.
    killed = set(run.report.watchdog)
    for line in run.report.kernel_log or ():
        killed.update(map(int, _PID.findall(line)))
    last = {number: pid for pid, number in worker_numbers(str(run.folder)).items()}
    workers = tuple(
        replace(each, exitcode=-signal.SIGKILL)
        if each.exitcode is None and last.get(each.number) in killed
        else each
        for each in seen.workers
    )
    died = {
        now.name: now.fate
        for now, then in zip(workers, seen.workers, strict=True)
        if now is not then
    }
    return replace(seen, workers=workers, timeline=_with_deaths(seen.timeline, died))


def _with_deaths(timeline: Timeline, died: dict[str, str]) -> Timeline:
    # Of several workers with one name, in several epochs, the last one is meant.
    last = {life.role: life for life in timeline.processes}
    processes = tuple(
        replace(life, died=died[life.role])
        if life is last[life.role] and life.role in died
        else life
        for life in timeline.processes
    )
    return replace(timeline, processes=processes)


def _confinement(run: Ended, *, from_outside: bool) -> Confinement:
    report, log = run.report, run.report.kernel_log
    workers = worker_numbers(str(run.folder))
    roles = {report.pid: "main"} | {pid: f"W{number}" for pid, number in workers.items()}
    return Confinement(
        limits=run.limits.sentences(report, workers=bool(workers)),
        memory=run.limits.memory,
        stand_in=run.limits.memory is not None and report.cgroup is None,
        oom_kills=report.oom_kills,
        peak=report.peak,
        kernel_log=None if log is None else tuple(_name(line, roles) for line in log),
        watchdog=tuple(roles.get(pid, "a process") for pid in report.watchdog),
        from_outside=from_outside,
        exitcode=report.exitcode if from_outside else None,
    )


def _from_outside(run: Ended) -> Observation:
    return unobserved(
        _end(run),
        deadline=run.deadline,
        seconds=run.report.seconds,
        timeline=_timeline(run),
        traceback=_stood_at(run),
        stderr=end_of_file(run.folder / "output"),
    )


def _end(run: Ended) -> End:
    if run.report.stopped:
        return "hung"
    if run.script and run.report.exitcode == 0:
        return "finished"
    return "raised" if run.script and (run.report.exitcode or 0) > 0 else "main died"


def _timeline(run: Ended) -> Timeline:
    shm, recorded = run.limits.shm, run.recorded
    if recorded is None:
        limits = Bounds(reader().total(), shm=shm)
        if run.report.cgroup is not None:
            limits = replace(limits, cgroup=run.limits.memory)
        note = "main's last moments were not sampled"
        return timeline_of(list(_moments(run.folder)), limits, note)
    if shm is None:
        return recorded
    return replace(
        recorded,
        shm=np.full_like(recorded.shm, math.nan),
        limits=replace(recorded.limits, shm=shm),
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


def _stood_at(run: Ended) -> tuple[Frame, ...]:
    # Asked at its deadline it answers in a file; when it crashes, faulthandler writes to 2.
    answer = run.folder / f"stack-{run.report.pid}"
    for file in (answer, run.folder / "output"):
        if "(most recent call first):" in (dump := end_of_file(file)):
            return main_thread(dump)[::-1]
    return ()


def _name(line: str, roles: dict[int, str]) -> str:
    # From "... Killed process 1234 (pt_data_worker) ..." to "... Killed process W0 (...) ...".
    return _PID.sub(lambda pid: roles.get(int(pid[0]), "another"), line)
