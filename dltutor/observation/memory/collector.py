"""The Collector: makes a Moment of each line that the helper writes, and a Timeline of all."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dltutor.observation.memory.curves import bytes_per_fault
from dltutor.observation.memory.lives import FIELDS, Life, Limits
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.timeline import Timeline
from dltutor.system.process_memory import CHEAP, DENIED, FULL

_MACHINE = ("shm", "available", "cgroup")
_LONG = 5  # times as long as asked for: to be told


class _Process:
    """What was sampled of one process so far."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.role: str | None = None  # fixed once it is gone: its pid may then be used again
        self.ended: float | None = None
        self.values: dict[str, array[float]] = {name: array("d") for name in FIELDS}
        self._uss: list[float] = []  # the last two readings, and the faults at each
        self._faults: list[float] = []

    def add(self, figures: dict[str, int | None]) -> Reading:
        for name, values in self.values.items():
            values.append(_number(figures.get(name)))
        return Reading(**figures, private=self._private(figures))

    def _private(self, figures: dict[str, int | None]) -> int | None:
        uss, faults, rss = figures.get("uss"), figures["faults"], figures["rss"]
        if uss is not None:
            self._uss = [*self._uss[-1:], uss]
            self._faults = [*self._faults[-1:], _number(faults)]
        elif self._uss:
            share = bytes_per_fault(self._uss, self._faults)
            grown = 0 if faults is None else share * (faults - self._faults[-1])
            uss = int(min(self._uss[-1] + grown, max(rss or 0, self._uss[-1])))
        return uss


class Collector:
    """Takes the helper's lines; makes a Moment of each, and a Timeline of all.

    Args:
        main: The pid of the observed process.
        memory_period: Seconds between two readings of USS and PSS, at least.
        roles: Asked for the role of each process that has none so far.
    """

    def __init__(
        self,
        main: int,
        memory_period: float,
        roles: Callable[[int], str | None] | None = None,
    ) -> None:
        self.names = {main: "main"}  # pid -> role
        self.deaths: dict[int, str] = {}  # pid -> how it died
        self.hidden: set[int] = set()  # pids to leave out: the helpers of other recorders
        self.source = "proc"
        self.limits = Limits()
        self._main = main
        self._roles = roles
        self._memory_period = memory_period
        self._read_at: list[float] = []
        self._columns: dict[str, array[float]] = {
            name: array("d") for name in ("seconds", "batches", *_MACHINE)
        }
        self._lives: list[tuple[int, _Process]] = []
        self._living: dict[int, _Process] = {}
        self._denied: set[int] = set()

    def add(self, line: dict[str, Any], batches: int) -> Moment:
        """Take one line.

        Args:
            line: As the helper wrote it.
            batches: How many were delivered by now.
        """
        row = len(self._columns["seconds"])
        machine = {name: line[name] for name in _MACHINE}
        known = {"seconds": line["seconds"], "batches": batches, **machine}
        for name, value in known.items():
            self._columns[name].append(_number(value))
        gone = [self._end(pid, line["seconds"]) for pid in line["gone"] if pid in self._living]
        memory = line["memory"] or {}
        if memory:
            self._read_at.append(line["seconds"])
        processes: dict[str, Reading] = {}
        for pid, cheap in ((int(key), figures) for key, figures in line["processes"].items()):
            if pid in self.hidden:
                continue
            if pid not in self._living:
                self._living[pid] = _Process(row)
                self._lives.append((pid, self._living[pid]))
            full = memory.get(str(pid), DENIED)
            sample = self._living[pid].add(dict(zip(CHEAP + FULL, [*cheap, *full], strict=True)))
            if self._roles and pid not in self.names and (found := self._roles(pid)):
                self.names[pid] = found
            role = self._role(pid)
            processes[role] = processes[role] + sample if role in processes else sample
        self._denied.update(int(pid) for pid, figures in memory.items() if figures[0] is None)
        return Moment(line["seconds"], batches, processes, **machine, gone=tuple(gone))

    def timeline(self, notes: Sequence[str] = ()) -> Timeline:
        """All samples so far.

        Args:
            notes: What else is to be said about the picture.
        """
        columns = {name: np.array(values) for name, values in self._columns.items()}
        shown = [(pid, process) for pid, process in self._lives if pid not in self.hidden]
        return Timeline(
            **{**columns, "batches": columns["batches"].astype(np.int64)},
            lives=tuple(self._life(pid, process) for pid, process in shown),
            limits=self.limits,
            notes=(*notes, *self._missing()),
        )

    @property
    def pids(self) -> set[int]:
        """The processes that were sampled so far."""
        return {pid for pid, _ in self._lives.copy()}

    def _role(self, pid: int) -> str:
        return self.names.get(pid, "other")

    def _end(self, pid: int, seconds: float) -> str:
        process = self._living.pop(pid)
        process.ended = seconds
        process.role = self.names.get(pid)
        return self._role(pid)

    def _life(self, pid: int, process: _Process) -> Life:
        last = {each: other for each, other in self._lives}[pid]
        return Life(
            role=process.role or self._role(pid),
            first=process.first,
            values={name: np.array(process.values[name]) for name in FIELDS},
            ended=process.ended,
            died=self.deaths.get(pid, "") if process is last else "",
        )

    def _missing(self) -> Iterator[str]:
        sampled = self.pids
        if not self._columns["seconds"]:
            yield "no sample was taken"
        elif self._main not in sampled:
            yield "the observed process was gone, or hidden, before the first sample"
        if self.source == "psutil":
            yield "there is no /proc here: RSS and USS come from psutil, and there is no PSS"
        if self.limits.shm is None and len(self._columns["seconds"]):
            yield "there is no /dev/shm here"
        for role in sorted(self._role(pid) for pid in self._denied & sampled):
            yield f"USS and PSS of {role} could not be read"
        longest = max(np.diff(self._read_at), default=0.0)
        if longest > _LONG * self._memory_period:
            yield f"USS and PSS were read up to {longest:.0f} s apart: that is costly here"
        for pid, how in self.deaths.items():
            if pid not in sampled:
                yield f"{self._role(pid)} was {how} before it could be sampled"


def _number(value: float | None) -> float:
    return math.nan if value is None else value
