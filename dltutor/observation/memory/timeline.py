"""The Timeline: memory, descriptors and shared memory of each process over time."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from os import PathLike
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.curves import Floats, slopes
from dltutor.observation.memory.lives import FIELDS, Field, Life, Limits

__all__ = ["FIELDS", "Field", "Life", "Limits", "Timeline"]


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
        lives: The processes. One role may have several, one after the other: each epoch may
            start new workers.
        limits: What bounds the memory.
        notes: What is missing in the picture, and why.
    """

    seconds: Floats
    batches: NDArray[np.int64]
    shm: Floats
    available: Floats
    cgroup: Floats
    lives: tuple[Life, ...] = ()
    limits: Limits = field(default_factory=Limits)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Timeline: {', '.join(self.roles) or 'no samples'}>"

    @property
    def roles(self) -> tuple[str, ...]:
        """main, W0, W1, ..., other: those that were seen."""
        return tuple(sorted({life.role for life in self.lives}, key=_role_order))

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
        return self._sum((life.rows, life.values[field]) for life in self._of(role))

    def total_pss(self) -> Floats:
        """PSS of all processes together: what the whole run takes up, nothing counted twice.

        A batch that waits in `/dev/shm` is in no process until main takes it: `shm` has it.
        As in `pss_curve`; NaN where nothing is known.
        """
        return self._sum((life.rows, self._joined(life)) for life in self.lives)

    def pss_curve(self, role: str) -> Floats:
        """PSS of one role in every sample, also where it was not read.

        Where it was read, the curve is what was read. In between it is `private_curve` and, on
        top of it, the part that is shared with others: as long as the same processes live, a
        straight line joins what was read of that. It never joins readings before and after a
        process came or went, which moves the shares of all others. NaN where a set of processes
        was too short-lived to be read.
        """
        return self._sum((life.rows, self._joined(life)) for life in self._of(role))

    def private_curve(self, role: str) -> Floats:
        """Private memory (USS) of one role in every sample, also where USS was not read.

        Where it was read, the curve is what was read. In between, each minor fault stands for a
        page that has become private (which follows USS within 3 % while copy-on-write pages are
        copied), scaled so that the curve meets the next reading: a process that frees and takes
        the same memory again has faults, too, and does not grow. Past the last reading the last
        scale goes on. Where there was a reading between two comings or goings of any process, the
        curve there is made of that alone: what two processes share becomes the one's own when the
        other ends, without any fault. Bounded by RSS; NaN where USS was never read.
        """
        return self._sum((life.rows, self._private(life)) for life in self._of(role))

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
        if role is not None:
            return _highest(self.series(role, field))
        if field == "pss":
            # Of what was read: an estimate may go past all that there ever was.
            return _highest(self._sum((life.rows, self._read_pss(life)) for life in self.lives))
        return _highest(self._sum((life.rows, life.values[field]) for life in self.lives))

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
        for life in self._of(role):
            values = self._private(life) if field == "uss" else life.values[field]
            steady = self._steady(life) & ~np.isnan(values)
            along = self.batches if per == "batch" else self.seconds
            found.append(slopes(along[life.rows][steady].astype(float), values[steady]))
        together = np.concatenate(found)
        return float(np.median(together)) if together.size else math.nan

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists and numbers that JSON can hold; None for what was not sampled."""
        return {
            "units": "bytes, seconds, counts",
            **{name: _plain(getattr(self, name)) for name in _COLUMNS},
            "limits": {name: getattr(self.limits, name) for name in ("machine", "cgroup", "shm")},
            "notes": list(self.notes),
            "processes": [
                {
                    "role": life.role,
                    "first": life.first,
                    "ended": life.ended,
                    "died": life.died,
                    **{field: _plain(values) for field, values in life.values.items()},
                }
                for life in self.lives
            ],
        }

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write one line for each process in each sample; empty cells were not sampled.

        Args:
            path: The file; what it held is lost.
        """
        with open(path, "w", newline="") as file:
            table = csv.writer(file)
            table.writerow([*_COLUMNS, "process", "role", *FIELDS])
            in_time = sorted(self._cells(), key=itemgetter(0))
            table.writerows(in_time)

    def _cells(self) -> Iterator[list[Any]]:
        columns = [_plain(getattr(self, name)) for name in _COLUMNS]
        for number, life in enumerate(self.lives):
            values = [_plain(life.values[field]) for field in FIELDS]
            for row, figures in enumerate(zip(*values, strict=True), start=life.first):
                yield [*(column[row] for column in columns), number, life.role, *figures]

    def _of(self, role: str) -> list[Life]:
        return [life for life in self.lives if life.role == role]

    def _sum(self, parts: Iterable[tuple[slice, Floats]]) -> Floats:
        total = np.full(len(self.seconds), math.nan)
        for rows, values in parts:
            known = ~np.isnan(values)
            total[rows][known] = np.nan_to_num(total[rows][known]) + values[known]
        return total

    def _joined(self, life: Life) -> Floats:
        private = np.nan_to_num(self._private(life))  # none of it where USS was never read
        return private + self._lines(life, life.values["pss"] - private)

    def _private(self, life: Life) -> Floats:
        curve = life.private()
        for piece in self._pieces(life):
            if not np.isnan(life.values["uss"][piece]).all():
                curve[piece] = life.private(piece)
        return curve

    def _read_pss(self, life: Life) -> Floats:
        return self._lines(life, life.values["pss"])

    def _lines(self, life: Life, readings: Floats) -> Floats:
        # Straight lines between readings.
        seconds = self.seconds[life.rows]
        curve = np.full(len(readings), math.nan)
        for piece in self._pieces(life):
            read = piece.start + np.flatnonzero(~np.isnan(readings[piece]))
            if read.size:
                curve[piece] = np.interp(seconds[piece], seconds[read], readings[read])
        return curve

    def _pieces(self, life: Life) -> Iterator[slice]:
        # Of its samples: from the birth or the end of any process to the next one.
        length = len(life.values["rss"])
        edges = {edge - life.first for each in self.lives for edge in each.edges}
        inner = sorted(edge for edge in edges if 0 < edge < length)
        for start, stop in pairwise([0, *inner, length]):
            yield slice(start, stop)

    def _steady(self, life: Life) -> NDArray[np.bool_]:
        batches, seconds = self.batches[life.rows], self.seconds[life.rows]
        if batches.size and batches[-1] > batches[0]:
            return np.asarray(batches > batches[0])
        start_up = min(1.0, 0.25 * float(np.ptp(seconds))) if seconds.size else 0.0
        return np.asarray(seconds >= seconds[:1] + start_up)


_COLUMNS: Final = ("seconds", "batches", "shm", "available", "cgroup")


def _highest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else math.nan


def _plain(values: NDArray[Any]) -> list[float | int | None]:
    whole = np.isnan(values) | (values == np.floor(values))
    return [
        None if math.isnan(value) else int(value) if is_whole else float(value)
        for value, is_whole in zip(values.tolist(), whole.tolist(), strict=True)
    ]


def _check_field(field: str) -> None:
    if field not in FIELDS:
        raise ValueError(f"field must be one of {', '.join(FIELDS)}, got {field!r}")


def _role_order(role: str) -> tuple[int, int, str]:
    number = role[1:]
    if role.startswith("W") and number.isdigit():
        return 1, int(number), role
    return (0 if role == "main" else 3 if role == "other" else 2), 0, role
