"""What the workers of a run hold of their own, to be drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dltutor.observation.memory.timeline import Life, Timeline


def workers_own(timeline: Timeline) -> Timeline:
    """The workers of a run without main, and without what they share with others.

    Where a timeline has no PSS, its areas are USS.
    """
    workers = (life for life in timeline.lives if life.role in timeline.workers)
    return replace(timeline, lives=tuple(_unshared(life) for life in workers))


def _unshared(life: Life) -> Life:
    return replace(life, values={**life.values, "pss": np.full_like(life.values["pss"], np.nan)})
