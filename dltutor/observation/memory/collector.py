"""Turn the lines that the helper process (`sampler.py`) writes into Moments and a Timeline."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dltutor.observation.memory.estimates import Estimates, Known
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.process_curves import FIELDS, Bounds, Field, ProcessCurves
from dltutor.observation.memory.timeline import Timeline

_MACHINE = ("shm", "available", "cgroup")
_LONG = 5  # mention the time between two readings if it's over this many times `memory_period`


class _Process:
    def __init__(self, first: int) -> None:
        self.first = first
        self.role: str | None = None  # set when the process is gone, because its pid may be reused
        self.ended: float | None = None
        self.values: dict[Field, array[float]] = {name: array("d") for name in FIELDS}

    def add(self, reading: Reading) -> Known:
        for name, values in self.values.items():
            values.append(_number(getattr(reading, name)))
        return Known(*(_number(getattr(reading, name)) for name in Known._fields))


class Collector:
    """A collector that turns each line from the helper into a Moment, and all into one Timeline.

    Args:
        main: The pid of the observed process.
        memory_period: The Recorder's `memory_period`, in seconds. If two readings of USS and PSS
            are more than 5 times as far apart, a note says so.
        roles: A function that takes the pid of a process without a role and returns its role
            or None.
    """

    def __init__(
        self,
        main: int,
        memory_period: float,
        roles: Callable[[int], str | None] | None = None,
    ) -> None:
        self.names = {main: "main"}  # pid -> role
        self.deaths: dict[int, str] = {}  # pid -> how it died
        self.starting = 0  # how many loaders are starting workers, which have no role yet
        self.hidden: set[int] = set()  # the pids of all recorders' helpers, to leave out
        self.source = "proc"
        self.limits = Bounds()
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
        self._estimates = Estimates()
        self._kind = ""

    def add(self, line: dict[str, Any], batches: int) -> Moment:
        """Add one line and the number of batches delivered so far, and return both as a Moment."""
        row = len(self._columns["seconds"])
        machine = {name: line[name] for name in _MACHINE}
        known = {"seconds": line["seconds"], "batches": batches, **machine}
        for name, value in known.items():
            self._columns[name].append(_number(value))
        gone = [self._end(pid, line["seconds"]) for pid in line["gone"] if pid in self._living]
        memory = line["memory"] or {}
        if memory:
            self._read_at.append(line["seconds"])
        readings: dict[int, Reading] = {}
        for pid, cheap in line["processes"].items():
            if pid in self.hidden:
                continue
            if pid not in self._living:
                self._living[pid] = _Process(row)
                self._lives.append((pid, self._living[pid]))
            if self._roles and pid not in self.names and (found := self._roles(pid)):
                self.names[pid] = found
            readings[pid] = Reading(**cheap, **memory.get(pid, {}))
        self._denied.update(pid for pid, figures in memory.items() if figures["uss"] is None)
        living = {self._living[pid]: pid for pid in readings}
        figures = {process: process.add(readings[pid]) for process, pid in living.items()}
        changed = self._estimates.add(line["seconds"], figures)
        self._kind = self._kind_of(readings.values())
        processes: dict[str, Reading] = {}
        for pid, reading in readings.items():
            if self.starting and pid not in self.names:
                continue
            role, estimated = self._role(pid), self._estimated(pid, reading)
            processes[role] = processes[role] + estimated if role in processes else estimated
        return Moment(
            line["seconds"],
            batches,
            processes,
            **machine,
            gone=tuple(gone),
            kind=self._kind,
            settled=tuple(self._settled(each, living) for each in range(row - changed, row)),
        )

    def _kind_of(self, readings: Iterable[Reading]) -> str:
        if self._kind == "PSS" or any(reading.pss is not None for reading in readings):
            return "PSS"
        return "USS" if self._kind or any(each.uss is not None for each in readings) else ""

    def _estimated(self, pid: int, reading: Reading) -> Reading:
        estimate = self._estimates.of[self._living[pid]]
        private, shared = int(estimate.private[-1]), int(estimate.shared[-1])
        return replace(
            reading, private=private if estimate.was_read else None, memory=private + shared
        )

    def _settled(self, row: int, living: dict[_Process, int]) -> tuple[float, dict[str, int]]:
        # No correction goes back beyond the start or end of a process, so each process has a value.
        by_role: dict[str, int] = {}
        for process, pid in living.items():
            estimate, place = self._estimates.of[process], row - process.first
            memory = int(estimate.private[place] + estimate.shared[place])
            by_role[self._role(pid)] = by_role.get(self._role(pid), 0) + memory
        return self._columns["seconds"][row], by_role

    def timeline(self, notes: Sequence[str] = ()) -> Timeline:
        """Return the Timeline of all samples so far, with `notes` and notes on what is missing."""
        columns = {name: np.array(values) for name, values in self._columns.items()}
        shown = [(pid, process) for pid, process in self._lives if pid not in self.hidden]
        return Timeline(
            **{**columns, "batches": columns["batches"].astype(np.int64)},
            processes=tuple(self._life(pid, process) for pid, process in shown),
            limits=self.limits,
            notes=(*notes, *self._missing()),
        )

    @property
    def pids(self) -> set[int]:
        """The pids of all processes that were sampled so far."""
        return {pid for pid, _ in self._lives.copy()} - self.hidden

    def _role(self, pid: int) -> str:
        return self.names.get(pid, "other")

    def _end(self, pid: int, seconds: float) -> str:
        process = self._living.pop(pid)
        process.ended = seconds
        process.role = self.names.get(pid)
        return self._role(pid)

    def _life(self, pid: int, process: _Process) -> ProcessCurves:
        last = {each: other for each, other in self._lives}[pid]
        return ProcessCurves(
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
            yield "there is no /proc here, so RSS and USS come from psutil, and there is no PSS"
        if self.limits.shm is None and len(self._columns["seconds"]):
            yield "there is no /dev/shm here"
        for role in sorted(self._role(pid) for pid in self._denied & sampled):
            yield f"USS and PSS of {role} couldn't be read"
        longest = max(np.diff(self._read_at), default=0.0)
        if longest > _LONG * self._memory_period:
            yield f"USS and PSS were read up to {longest:.0f} s apart, because that is slow here"
        for pid, how in self.deaths.items():
            if pid not in sampled:
                yield f"{self._role(pid)} was {how} before it could be sampled"


def _number(value: float | None) -> float:
    return math.nan if value is None else value
