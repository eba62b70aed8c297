"""What is known after a confined run: the child's Observation, or what was seen from outside."""

from __future__ import annotations

import math
import os
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from dltutor.observation.confinement.from_outside import timeline_of, unobserved
from dltutor.observation.confinement.limits import Confinement, ResourceLimits
from dltutor.observation.confinement.task import Report, worker_numbers
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Limits
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.report import End, Frame, Observation
from dltutor.observation.stacks import main_thread
from dltutor.observation.texts import without_colors
from dltutor.system.process_memory import reader

_KEPT: Final = 64_000  # bytes, the last ones


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
    return replace(handed_over or _from_outside(run), confinement=confinement)


def _handed_over(folder: Path) -> Observation | TypeError | None:
    try:
        data = (folder / "observation").read_bytes()
    except FileNotFoundError:
        return None
    found: Observation | TypeError = pickle.loads(data)
    return found


def _confinement(run: Ended, *, from_outside: bool) -> Confinement:
    report, log = run.report, run.report.kernel_log
    workers = worker_numbers(str(run.folder))
    roles = {report.pid: "main"} | {pid: f"W{number}" for pid, number in workers.items()}
    return Confinement(
        limits=run.limits.sentences(report),
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
        stderr=_output(run.folder),
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
        limits = Limits(reader().total(), shm=shm)
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
        (folder / "samples").open("rb") as file,
    ):
        while True:
            yield pickle.load(file)


def _stood_at(run: Ended) -> tuple[Frame, ...]:
    # Asked at its deadline it answers in a file; when it crashes, faulthandler writes to 2.
    answer = run.folder / f"stack-{run.report.pid}"
    for dump in (_tail(answer), _output(run.folder)):
        if "(most recent call first):" in dump:
            return main_thread(dump)[::-1]
    return ()


def _output(folder: Path) -> str:
    return without_colors(_tail(folder / "output").replace("\0", ""))


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _KEPT))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _name(line: str, roles: dict[int, str]) -> str:
    # From "... Killed process 1234 (pt_data_worker) ..." to "... Killed process W0 (...) ...".
    return re.sub(r"(?<=process )\d+", lambda pid: roles.get(int(pid[0]), "another"), line)
