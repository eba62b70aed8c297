"""Find processes whose memory or open files were still growing when a run ended.

One run can't show why, so you still need `diagnose` for the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from dltutor.observation.memory.process_curves import Floats
from dltutor.observation.memory.timeline import Timeline
from dltutor.tables import MB

#: Ignore a worker that grew by no more than this many MB, because ordinary workers grow, too.
LATE: Final = 24.0
# A curve still grows only if more than this fraction of its growth is in the last third.
_STILL: Final = 0.15
_ENOUGH: Final = 4  # a curve with fewer samples doesn't count as growing
_FILES: Final = 64  # always ignore this many new descriptors, because batches in transit use some


def still_growing(timeline: Timeline) -> Iterator[str]:
    """Yield sentences about memory and open files that were still growing at the end.

    One sentence names all workers whose memory grew. Main and each worker get a sentence of their
    own if their number of open files grew.
    """
    grew = [
        (role, growth)
        for role in timeline.workers
        if (growth := _growth(timeline, timeline.private_curve(role) / MB)) > LATE
    ]
    if grew:
        names = " and ".join(role for role, _ in grew)
        most = max(growth for _, growth in grew)
        by = "by up to" if len(grew) > 1 else "by"
        yield f"{names} grew {by} {most:.0f} MB and hadn't leveled off"
    batches = int(timeline.batches.max(initial=0))
    for role in ("main", *timeline.workers):
        opened = _growth(timeline, timeline.series(role, "fds"))
        if opened > max(_FILES, batches / 4):
            yield f"{role} has {opened:.0f} more open files than at its first batch"


def _growth(timeline: Timeline, curve: Floats) -> float:
    # Return the growth since the first batch, or 0 if the curve doesn't grow, has leveled off, or
    # has too few samples.
    batches = timeline.batches
    usable = (batches > 0) & ~np.isnan(curve)
    values, along = curve[usable], batches[usable]
    if len(values) < _ENOUGH:
        return 0.0
    whole = float(values[-1] - values[0])
    first, last = (float(np.interp(along[-1] * part / 3, along, values)) for part in (1, 2))
    late, still = float(values[-1]) - first, float(values[-1]) - last
    return whole if min(late, whole) > 0 and still > _STILL * whole and late > whole / 4 else 0.0
