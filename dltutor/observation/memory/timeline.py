"""The Timeline: memory, descriptors and shared memory of each process over time."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import count
from operator import itemgetter
from os import PathLike
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.estimates import Estimate, Estimates
from dltutor.observation.memory.process_curves import (
    FIELDS,
    Bounds,
    Field,
    Floats,
    ProcessCurves,
    slopes,
    steady,
)

__all__ = ["FIELDS", "Bounds", "Field", "ProcessCurves", "Timeline"]

_COLUMNS: Final = ("seconds", "batches", "shm", "available", "cgroup")


@dataclass(frozen=True, eq=False)
class Timeline:
    """What the memory recorder saw. Sizes are in bytes, times in seconds since the start.

    All arrays have one entry for each sample, about four a second; NaN means not sampled, as
    USS and PSS are in most samples, or not known on this system.

    Args:
        seconds: When each sample was taken.
        batches: How many batches had been delivered by then.
        shm: In use in `/dev/shm`, by whomever.
        available: What the machine could still give without swapping.
        cgroup: Charged to the cgroup, page cache included.
        processes: All of them. One role may have several, one after the other: each epoch may
            start new workers.
        limits: What bounds the memory.
        notes: What is missing in the chart, and why.
    """

    seconds: Floats
    batches: NDArray[np.int64]
    shm: Floats
    available: Floats
    cgroup: Floats
    processes: tuple[ProcessCurves, ...] = ()
    limits: Bounds = field(default_factory=Bounds)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Timeline: {', '.join(self.roles) or 'no samples'}>"

    @property
    def roles(self) -> tuple[str, ...]:
        """main, W0, W1, ..., other: those that were seen."""
        return tuple(sorted({process.role for process in self.processes}, key=_role_order))

    @property
    def workers(self) -> tuple[str, ...]:
        """The roles without main and other."""
        return tuple(role for role in self.roles if role not in ("main", "other"))

    def series(self, role: str, field: Field) -> Floats:
        """One field of one role over time.

        Args:
            role: One of `roles`; any other gives NaN throughout.
            field: rss, uss, pss, pss_shm (the part of PSS in shared memory), faults (minor page
                faults since the process started), fds (open descriptors), threads.

        Returns:
            One entry for each sample; the sum where several processes have the role at once.
        """
        _check_field(field)
        return self._sum(self._of(role), lambda process: process.values[field])

    @property
    def kind(self) -> str:
        """What `memory_curve` is made of: PSS, or USS where there is no PSS; else empty."""
        kinds: tuple[Field, ...] = ("pss", "uss")
        read = (kind for kind in kinds if any(process.was_read(kind) for process in self.processes))
        return next(read, "").upper()

    def memory_curve(self, role: str) -> Floats:
        """What one role takes of the memory in every sample, as the charts draw it.

        PSS or, where there is no PSS, USS: where they were read it is what was read, and in
        between the estimate of `memory.estimates`. NaN where no such process lived, and throughout
        where nothing was ever read.
        """
        return self._sum(self._of(role), self._memory)

    def total_pss(self) -> Floats:
        """PSS of all processes together: what the whole run takes up, nothing counted twice.

        A batch that waits in `/dev/shm` is in no process until main takes it: `shm` has it.
        As in `pss_curve`; NaN where nothing is known.
        """
        return self._pss(self.processes)

    def pss_curve(self, role: str) -> Floats:
        """PSS of one role in every sample, also where it was not read.

        `memory_curve` where that is PSS; NaN throughout where there is no PSS.
        """
        return self._pss(self._of(role))

    def private_curve(self, role: str) -> Floats:
        """Private memory (USS) of one role in every sample, also where USS was not read.

        Where it was read, the curve is what was read. In between, minor faults tell how it grew;
        see `memory.estimates.Estimate`. NaN where USS was never read.
        """
        return self._sum(self._of(role), self._private)

    def since_first_batch(self, values: Floats) -> tuple[Floats, Floats]:
        """How something grew between the first batch of all workers and the last batch.

        The whole run where no batches were counted.

        Args:
            values: One entry for each sample, such as `series("W0", "uss")`, or `shm`.

        Returns:
            Seconds since that first batch, and how much more there was than at first, wherever
            it was read.
        """
        last = int(self.batches.max(initial=0))
        first = min(max(len(self.workers), 1), last)
        counted = (self.batches >= first) & (self.batches < last) | (last == 0)
        known = counted & ~np.isnan(values)
        start = self.seconds[counted][:1]
        return self.seconds[known] - start, values[known] - values[known][:1]

    def peak(self, field: Field | Literal["shm"], role: str | None = None) -> float:
        """The highest value of a field.

        Args:
            field: One of the fields of `series`, or "shm" for `/dev/shm`.
            role: Whose; None for the highest sum of all processes. Sums of RSS count shared
                pages once for each process.

        Returns:
            The value, or NaN where there is none.
        """
        if field == "shm":
            return _highest(self.shm)
        _check_field(field)
        found = self.processes if role is None else self._of(role)
        if field == "pss":
            return _highest(self._pss(found))
        return _highest(self._sum(found, lambda process: process.values[field]))

    def growth(
        self, role: str, field: Field = "uss", per: Literal["batch", "second"] = "batch"
    ) -> float:
        """How much a field grows in the steady part of a process's life.

        The steady part begins at the first batch that arrives in the process's life or, where no
        batch is counted, after a quarter of it, at most one second. The slope is the median of
        the slopes between all pairs of samples of one process (Theil and Sen), which a few
        outliers do not move. USS is taken from `private_curve`.

        Args:
            role: Whose. Where several processes had the role, they are taken together.
            field: One of the fields of `series`.
            per: "batch" counts the batches delivered by all workers.

        Returns:
            Bytes (or faults, descriptors, threads) a batch or a second; NaN where two samples
            in the steady part are missing.
        """
        _check_field(field)
        if per not in ("batch", "second"):
            raise ValueError(f"per must be 'batch' or 'second', got {per!r}")
        found = [np.empty(0)]
        for process in self._of(role):
            values = self._private(process) if field == "uss" else process.values[field]
            batches, seconds = self.batches[process.rows], self.seconds[process.rows]
            usable = steady(batches, seconds) & ~np.isnan(values)
            along = batches if per == "batch" else seconds
            found.append(slopes(along[usable].astype(float), values[usable]))
        together = np.concatenate(found)
        return float(np.median(together)) if together.size else math.nan

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists and numbers that JSON can hold; None for what was not sampled."""
        return {
            "units": "bytes, seconds, counts",
            **{name: _plain(getattr(self, name)) for name in _COLUMNS},
            "limits": asdict(self.limits),
            "notes": list(self.notes),
            "processes": [
                {
                    "role": process.role,
                    "first": process.first,
                    "ended": process.ended,
                    "died": process.died,
                    **{field: _plain(values) for field, values in process.values.items()},
                }
                for process in self.processes
            ],
        }

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write one line for each process in each sample; empty cells were not sampled.

        Args:
            path: The file; what it held is lost.
        """
        plain = self.to_dict()
        lines: list[list[Any]] = []
        for number, process in enumerate(plain["processes"]):
            figures = zip(*(process[field] for field in FIELDS), strict=True)
            for row, values in zip(count(process["first"]), figures, strict=False):
                machine = [plain[name][row] for name in _COLUMNS]
                lines.append([*machine, number, process["role"], *values])
        lines.sort(key=itemgetter(0))
        with open(path, "w", newline="") as file:
            table = csv.writer(file)
            table.writerow([*_COLUMNS, "process", "role", *FIELDS])
            table.writerows(lines)

    def _of(self, role: str) -> tuple[ProcessCurves, ...]:
        return tuple(process for process in self.processes if process.role == role)

    def _sum(
        self, found: Iterable[ProcessCurves], curve: Callable[[ProcessCurves], Floats]
    ) -> Floats:
        total = np.full(len(self.seconds), math.nan)
        for process in found:
            rows, values = process.rows, curve(process)
            known = ~np.isnan(values)
            total[rows][known] = np.nan_to_num(total[rows][known]) + values[known]
        return total

    def _pss(self, found: Iterable[ProcessCurves]) -> Floats:
        return self._sum(found if self.kind == "PSS" else (), self._memory)

    def _memory(self, process: ProcessCurves) -> Floats:
        private, shared = self._estimates[process]
        return private + shared if self.kind else np.full(len(private), math.nan)

    def _private(self, process: ProcessCurves) -> Floats:
        private, _ = self._estimates[process]
        return private if process.was_read("uss") else np.full(len(private), math.nan)

    @cached_property
    def _estimates(self) -> dict[ProcessCurves, tuple[Floats, Floats]]:
        # Of each process: private memory, and its share of the rest.
        known = {process: process.known() for process in self.processes}
        estimates = Estimates()
        for row, seconds in enumerate(self.seconds.tolist()):
            here = [it for it in self.processes if it.rows.start <= row < it.rows.stop]
            estimates.add(seconds, {it: known[it][row - it.first] for it in here})
        found = {process: estimates.of.get(process, Estimate()) for process in self.processes}
        return {each: (np.array(of.private), np.array(of.shared)) for each, of in found.items()}


def _plain(values: NDArray[Any]) -> list[float | int | None]:
    whole = np.isnan(values) | (values == np.floor(values))
    return [
        None if math.isnan(value) else int(value) if is_whole else float(value)
        for value, is_whole in zip(values.tolist(), whole.tolist(), strict=True)
    ]


def _highest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else math.nan


def _check_field(field: str) -> None:
    if field not in FIELDS:
        raise ValueError(f"field must be one of {', '.join(FIELDS)}, got {field!r}")


def _role_order(role: str) -> tuple[int, str, int, str]:
    worker = re.fullmatch(r"W(\d+)(?: of (.+))?", role)
    if worker:
        return 1, worker[2] or "", int(worker[1]), role
    return (0 if role == "main" else 3 if role == "other" else 2), "", 0, role
