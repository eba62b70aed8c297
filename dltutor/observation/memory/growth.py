"""How much a curve grows: the slope that most of its points agree on."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dltutor.observation.memory.lives import Floats

_MOST_POINTS: Final = 400  # every pair of them is looked at


def slopes(along: Floats, values: Floats) -> Floats:
    """The slopes between all pairs of points; their median is Theil and Sen's estimate."""
    step = max(1, math.ceil(len(along) / _MOST_POINTS))
    one, other = np.triu_indices(len(along[::step]), k=1)
    run = along[::step][other] - along[::step][one]
    rise = values[::step][other] - values[::step][one]
    return np.asarray(rise[run > 0] / run[run > 0])


def steady(batches: NDArray[np.int64], seconds: Floats) -> NDArray[np.bool_]:
    """Which samples of a process lie in the steady part of its life.

    It begins at the first batch that arrives in its life or, where no batch is counted, after a
    quarter of it, at most one second.

    Args:
        batches: Delivered by each of its samples.
        seconds: When each was taken.
    """
    if batches.size and batches[-1] > batches[0]:
        return np.asarray(batches > batches[0])
    start_up = min(1.0, 0.25 * float(np.ptp(seconds))) if seconds.size else 0.0
    return np.asarray(seconds >= seconds[:1] + start_up)
