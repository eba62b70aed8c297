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
import psutil

from dltutor.observation.confinement.evidence import Confinement
from dltutor.observation.confinement.keeper import Report, worker_numbers
from dltutor.observation.confinement.unobserved import timeline_of, unobserved
from dltutor.observation.confinement.wanted import Wanted
from dltutor.observation.memory.lives import Limits
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.report import End, Frame, Observation
from dltutor.observation.stacks import main_thread

_KEPT: Final = 64_000  # bytes, the last ones


@dataclass(frozen=True)
class Aftermath:
    """A confined run that has ended.

    Args:
        folder: All that the child wrote.
        wanted: The limits.
        report: The keeper's.
        deadline: In seconds.
        script: Whether the child was a script.
        recorded: A timeline taken from outside, or None.
    """

    folder: Path
    wanted: Wanted
    report: Report
    deadline: float
    script: bool
    recorded: Timeline | None

    def observation(self) -> Observation:
        """Write down what is known.

        Raises:
            TypeError: The target did not return a Case.
        """
        handed_over = self._handed_over()
        if isinstance(handed_over, TypeError):
            raise handed_over
        confinement = self._confinement(from_outside=handed_over is None)
        return replace(handed_over or self._from_outside(), confinement=confinement)

    def _handed_over(self) -> Observation | TypeError | None:
        try:
            data = (self.folder / "observation").read_bytes()
        except FileNotFoundError:
            return None
        found: Observation | TypeError = pickle.loads(data)
        return found

    def _confinement(self, *, from_outside: bool) -> Confinement:
        report = self.report
        roles = self._roles()
        log = report.kernel_log
        return Confinement(
            limits=self.wanted.sentences(report),
            memory=self.wanted.memory,
            stand_in=self.wanted.memory is not None and report.cgroup is None,
            oom_kills=report.oom_kills,
            peak=report.peak,
            kernel_log=None if log is None else tuple(_name(line, roles) for line in log),
            watchdog=tuple(roles.get(pid, "a process") for pid in report.watchdog),
            from_outside=from_outside,
            exitcode=report.exitcode if from_outside else None,
        )

    def _roles(self) -> dict[int, str]:
        workers = worker_numbers(str(self.folder))
        return {self.report.pid: "main"} | {pid: f"W{number}" for pid, number in workers.items()}

    def _from_outside(self) -> Observation:
        return unobserved(
            self._end(),
            deadline=self.deadline,
            seconds=self.report.seconds,
            timeline=self._timeline(),
            traceback=self._stood_at(),
            stderr=self._output(),
        )

    def _end(self) -> End:
        if self.report.stopped:
            return "hung"
        if self.script and self.report.exitcode == 0:
            return "finished"
        return "raised" if self.script and (self.report.exitcode or 0) > 0 else "main died"

    def _timeline(self) -> Timeline:
        if self.recorded is None:
            limits = Limits(psutil.virtual_memory().total, shm=self.wanted.shm)
            if self.report.cgroup is not None:
                limits = replace(limits, cgroup=self.wanted.memory)
            note = "main's last moments were not sampled"
            return timeline_of(list(self._samples()), limits, note)
        if self.wanted.shm is None:
            return self.recorded
        return replace(
            self.recorded,
            shm=np.full_like(self.recorded.shm, math.nan),
            limits=replace(self.recorded.limits, shm=self.wanted.shm),
            notes=(*self.recorded.notes, "the script's own /dev/shm could not be sampled"),
        )

    def _samples(self) -> Iterator[Moment]:
        # The last one may be cut off.
        with (
            suppress(OSError, EOFError, pickle.UnpicklingError),
            (self.folder / "samples").open("rb") as file,
        ):
            while True:
                yield pickle.load(file)

    def _stood_at(self) -> tuple[Frame, ...]:
        # Asked at its deadline it answers in a file; when it crashes, faulthandler writes to 2.
        answer = self.folder / f"stack-{self.report.pid}"
        for dump in (_tail(answer), self._output()):
            if "(most recent call first):" in dump:
                return main_thread(dump)[::-1]
        return ()

    def _output(self) -> str:
        return _tail(self.folder / "output").replace("\0", "")


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
