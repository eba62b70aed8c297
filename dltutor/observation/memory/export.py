"""A Timeline as plain lists and numbers, and as a file of comma-separated values."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import asdict
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.process_curves import FIELDS

if TYPE_CHECKING:
    from dltutor.observation.memory.timeline import Timeline

_COLUMNS: Final = ("seconds", "batches", "shm", "available", "cgroup")


def as_dict(timeline: Timeline) -> dict[str, Any]:
    """See `Timeline.to_dict`."""
    return {
        "units": "bytes, seconds, counts",
        **{name: _plain(getattr(timeline, name)) for name in _COLUMNS},
        "limits": asdict(timeline.limits),
        "notes": list(timeline.notes),
        "processes": [
            {
                "role": process.role,
                "first": process.first,
                "ended": process.ended,
                "died": process.died,
                **{field: _plain(values) for field, values in process.values.items()},
            }
            for process in timeline.processes
        ],
    }


def write_csv(timeline: Timeline, path: str | PathLike[str]) -> None:
    """See `Timeline.to_csv`."""
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*_COLUMNS, "process", "role", *FIELDS])
        in_time = sorted(_cells(timeline), key=itemgetter(0))
        table.writerows(in_time)


def _cells(timeline: Timeline) -> Iterator[list[Any]]:
    columns = [_plain(getattr(timeline, name)) for name in _COLUMNS]
    for number, process in enumerate(timeline.processes):
        values = [_plain(process.values[field]) for field in FIELDS]
        for row, figures in enumerate(zip(*values, strict=True), start=process.first):
            yield [*(column[row] for column in columns), number, process.role, *figures]


def _plain(values: NDArray[Any]) -> list[float | int | None]:
    whole = np.isnan(values) | (values == np.floor(values))
    return [
        None if math.isnan(value) else int(value) if is_whole else float(value)
        for value, is_whole in zip(values.tolist(), whole.tolist(), strict=True)
    ]
