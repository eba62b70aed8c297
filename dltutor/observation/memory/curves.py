"""What lies between two readings: private memory from page faults, and slopes."""

from __future__ import annotations

import math
import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PAGE: Final = float(mmap.PAGESIZE)
_MOST_POINTS: Final = 400  # for slopes: every pair of them is looked at


def private_memory(uss: Floats, faults: Floats, rss: Floats) -> Floats:
    """Private memory in every sample, from USS in a few of them and minor faults in all.

    Args:
        uss: Bytes; NaN where it was not read.
        faults: Minor faults since the process started; NaN where they are not counted.
        rss: Bytes, the upper bound.

    Returns:
        Bytes; where USS was read, what was read. NaN throughout if it never was.
    """
    read = np.flatnonzero(~np.isnan(uss))
    if not read.size:
        return uss.copy()
    if np.isnan(faults).any():
        return np.interp(np.arange(len(uss)), read, uss[read])
    curve = np.interp(faults, faults[read], uss[read])
    first, last = read[0], read[-1]
    curve[:first] = uss[first] - _PAGE * (faults[first] - faults[:first])
    share = bytes_per_fault(uss[read[-2:]].tolist(), faults[read[-2:]].tolist(), otherwise=_PAGE)
    curve[last + 1 :] = uss[last] + share * (faults[last + 1 :] - faults[last])
    curve[read] = uss[read]
    return np.clip(curve, 0, np.fmax(rss, uss))


def bytes_per_fault(uss: list[float], faults: list[float], otherwise: float = _PAGE) -> float:
    """How much of a page became private with each fault between two readings.

    A whole page while copy-on-write pages are copied; next to nothing in a process that frees
    and takes the same memory again.
    """
    taken = faults[-1] - faults[0]
    return min(max((uss[-1] - uss[0]) / taken, 0.0), _PAGE) if taken > 0 else otherwise


def slopes(along: Floats, values: Floats) -> Floats:
    """The slopes between all pairs of points; their median is Theil and Sen's estimate."""
    step = max(1, math.ceil(len(along) / _MOST_POINTS))
    one, other = np.triu_indices(len(along[::step]), k=1)
    run = along[::step][other] - along[::step][one]
    rise = values[::step][other] - values[::step][one]
    return np.asarray(rise[run > 0] / run[run > 0])
