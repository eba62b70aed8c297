"""Define the Timeline, which holds each process's memory and descriptors over time."""

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

_COLUMNS: Final = ("seconds", "batches", "shm", "available", "cgroup")


@dataclass(frozen=True, eq=False)
class Timeline:
    """A Recorder's record of memory and descriptors over time, for charts and measurements.

    Sizes are in bytes, and times are in seconds since the start.

    The arrays `seconds` to `cgroup` have one entry for each sample, usually four per second. NaN
    means that the sample doesn't have the value (most samples have no USS and PSS), or that the
    system doesn't report the value.

    Args:
        seconds: When each sample was taken.
        batches: How many batches had been delivered by the time of each sample.
        shm: How much of `/dev/shm` was in use, by any process.
        available: How much memory the machine could still give without swapping.
        cgroup: How much memory was charged to the cgroup, page cache included.
        processes: All processes. Several processes may have the same role, one after the other,
            because each epoch may start new workers.
        limits: The limits on memory.
        notes: What is missing from the record, and why.
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
        """The roles of all processes, in the order main, W0, W1, ..., other."""
        return tuple(sorted({process.role for process in self.processes}, key=_role_order))

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers' roles."""
        return tuple(role for role in self.roles if role not in ("main", "other"))

    def series(self, role: str, field: Field) -> Floats:
        """Return one field of one role over time.

        Args:
            role: One of `roles`. For any other role, all entries are NaN.
            field: rss, uss, pss, pss_shm (the part of PSS in shared memory), faults (minor page
                faults since the process started), fds (open descriptors), threads.

        Returns:
            One entry for each sample, which is the sum if several processes have the role at once.

        Raises:
            ValueError: `field` isn't one of these fields.
        """
        _check_field(field)
        return self._sum(self._of(role), lambda process: process.values[field])

    @property
    def kind(self) -> str:
        """What `memory_curve` shows: "PSS", "USS" if there is no PSS, or "" if there is neither."""
        kinds: tuple[Field, ...] = ("pss", "uss")
        read = (kind for kind in kinds if any(process.was_read(kind) for process in self.processes))
        return next(read, "").upper()

    def memory_curve(self, role: str) -> Floats:
        """Return one role's memory in every sample, as the charts draw it.

        The curve is PSS, or USS if there is no PSS. Between two readings, the curve is the estimate
        from `memory.estimates`. The curve is NaN while no process with the role was running, and
        everywhere if nothing was read.
        """
        return self._sum(self._of(role), self._memory)

    def total_pss(self) -> Floats:
        """Return the PSS of all processes together in every sample, which counts nothing twice.

        A batch that waits in `/dev/shm` doesn't count until main takes it, but `shm` counts it. A
        sample adds up the processes whose PSS is known or estimated, and is NaN if there are none.
        """
        return self._pss(self.processes)

    def pss_curve(self, role: str) -> Floats:
        """Return one role's PSS in every sample, estimated where it wasn't read.

        The result is `memory_curve`, or NaN everywhere if there is no PSS.
        """
        return self._pss(self._of(role))

    def private_curve(self, role: str) -> Floats:
        """Return one role's private memory (USS) in every sample.

        Between two readings, the curve is estimated from minor faults (see
        `memory.estimates.Estimate`). The curve is NaN for processes whose USS was never read.
        """
        return self._sum(self._of(role), self._private)

    def since_first_batch(self, values: Floats) -> tuple[Floats, Floats]:
        """Return how a curve grew from the first batches, one for each worker, to the last batch.

        If no batches were counted, return how the curve grew in the whole run.

        Args:
            values: One entry for each sample, such as `series("W0", "uss")` or `shm`.

        Returns:
            The seconds since the start of that part of the run, and the growth since the part's
            first value, for each sample with a value.
        """
        last = int(self.batches.max(initial=0))
        first = min(max(len(self.workers), 1), last)
        counted = (self.batches >= first) & (self.batches < last) | (last == 0)
        known = counted & ~np.isnan(values)
        start = self.seconds[counted][:1]
        return self.seconds[known] - start, values[known] - values[known][:1]

    def peak(self, field: Field | Literal["shm"], role: str | None = None) -> float:
        """Return the highest value of a field.

        Args:
            field: One of the fields in `series`, or "shm" for `/dev/shm`.
            role: The role. If None, the result is the highest sum over all processes. A sum of RSS
                counts a shared page once for each process. For "shm", the role makes no difference.

        Returns:
            The value, or NaN if there is no value.

        Raises:
            ValueError: `field` isn't one of these fields.
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
        """Return how much a field grows in the steady part of a process's life (see `steady`).

        The growth is the median of the slopes between all pairs of samples from one process
        (Theil-Sen), which a few outliers don't change. USS comes from `private_curve`.

        Args:
            role: The role. If several processes had the role, we pool their slopes.
            field: One of the fields in `series`.
            per: "batch" or "second". All workers' batches count.

        Returns:
            Bytes (or faults, descriptors, threads) per batch or per second, or NaN if there aren't
            two samples in the steady part.

        Raises:
            ValueError: `field` or `per` isn't one of these values.
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
        """Return the timeline as lists and numbers that JSON can hold. A missing value is None.

        Returns:
            The fields of Timeline by name, plus `units`. Each process in `processes` is a dict of
            `role`, `first`, `ended`, `died`, and a list for each of FIELDS.
        """
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
        """Write the timeline as a CSV file, with one row per process and sample.

        A row has the sample's values for the machine, the process's number (from 0) and role, and
        the process's figures. Missing values are empty.

        Args:
            path: The file to write. If the file exists, replace its content.
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
        # Return each process's private memory, and its share of shared memory.
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
