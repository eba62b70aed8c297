"""Observations of what no `observe` could finish, from the little that is known of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from dltutor.observation import errors
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.process_curves import FIELDS, Bounds, ProcessCurves
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.report import End, Frame, Observation


def unobserved(
    end: End,
    *,
    deadline: float,
    seconds: float,
    timeline: Timeline,
    failed: errors.Failed = errors.NOTHING,
    traceback: tuple[Frame, ...] = (),
    stderr: str = "",
) -> Observation:
    """An Observation without batches and workers.

    Args:
        end: How the run ended.
        deadline: The seconds it was given.
        seconds: The seconds it took.
        timeline: Its memory, if known.
        failed: What ended it.
        traceback: Where it stood, outermost call first; used if nothing failed.
        stderr: What it wrote.
    """
    return Observation(
        end=end,
        deadline=deadline,
        batches=0,
        samples=0,
        seconds=seconds,
        first_batch_seconds=None,
        last_batch_seconds=None,
        chain=failed.chain,
        traceback=failed.traceback or traceback,
        raised_in_worker=None,
        failed_worker=None,
        workers=(),
        stderr=stderr,
        raw=failed.raw,
        timeline=timeline,
        notes=failed.notes,
    )


def timeline_of(moments: Sequence[Moment], limits: Bounds, *notes: str) -> Timeline:
    """The Timeline of moments as a listener got them.

    Args:
        moments: In the order of time.
        limits: What bounds the memory.
        notes: What is missing in the chart.
    """
    roles = dict.fromkeys(role for moment in moments for role in moment.processes)
    return Timeline(
        seconds=_column(moment.seconds for moment in moments),
        batches=np.array([moment.batches for moment in moments], dtype=np.int64),
        shm=_column(moment.shm for moment in moments),
        available=_column(moment.available for moment in moments),
        cgroup=_column(moment.cgroup for moment in moments),
        processes=tuple(_life(role, moments) for role in roles),
        limits=limits,
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
