"""Find signs that a loader broke a promise in a run that ended without an error.

One run can't show why the promise is broken, so you still need `diagnose` for the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from dltutor.observation.memory.process_curves import Floats
from dltutor.tables import MB

if TYPE_CHECKING:
    from dltutor.observation.report import Observation

#: Ignore a worker that grew by no more than this many MB, because ordinary workers grow, too.
LATE: Final = 24.0
# A curve still grows if more than this fraction of its growth is in the last third.
_STILL: Final = 0.15
_ENOUGH: Final = 4  # a curve with fewer samples doesn't count as growing
_FILES: Final = 64  # the most new descriptors to ignore, because batches in transit use some
_MOST: Final = 0.5  # the largest fraction of its time that a loop may wait for batches
_LONG: Final = 4.0  # seconds that any loop may wait, because a short run may be slow by chance


def signs(seen: Observation) -> Iterator[tuple[str, str]]:
    """Yield the promises that a finished run broke, such as "complete", each with its evidence."""
    if seen.expected is not None and seen.samples not in (None, seen.expected):
        yield "complete", f"{seen.samples} samples arrived, but the dataset has {seen.expected}"
    grew = [
        (role, growth)
        for role in seen.timeline.workers
        if (growth := _growth(seen, seen.timeline.private_curve(role) / MB)) > LATE
    ]
    if grew:
        names = " and ".join(role for role, _ in grew)
        most = max(growth for _, growth in grew)
        by = "by up to" if len(grew) > 1 else "by"
        yield "bounded", f"{names} grew {by} {most:.0f} MB and hadn't leveled off"
    for role in ("main", *seen.timeline.workers):
        opened = _growth(seen, seen.timeline.series(role, "fds"))
        if opened > max(_FILES, seen.batches / 4):
            yield "bounded", f"{role} has {opened:.0f} more open files than at its first batch"
    if seen.left:
        are = "process was" if seen.left == 1 else "processes were"
        yield "clean", f"{seen.left} {are} still running after the workers that started them left"
    if _waits(seen):
        yield "quick", "your loop spent most of its time waiting for batches"


def _waits(seen: Observation) -> bool:
    # Leave out the wait for the first batch, which includes the start of the workers.
    if seen.waited is None or seen.first_batch_seconds is None:
        return False
    waited = seen.waited * seen.seconds - seen.first_batch_seconds
    return waited > max(_LONG, _MOST * (seen.seconds - seen.first_batch_seconds))


def _growth(seen: Observation, curve: Floats) -> float:
    # Return the growth since the first batch, or 0 if the curve doesn't grow, has leveled off, or
    # has too few samples.
    batches = seen.timeline.batches
    usable = (batches > 0) & ~np.isnan(curve)
    values, along = curve[usable], batches[usable]
    if len(values) < _ENOUGH:
        return 0.0
    whole = float(values[-1] - values[0])
    first, last = (float(np.interp(along[-1] * part / 3, along, values)) for part in (1, 2))
    late, still = float(values[-1]) - first, float(values[-1]) - last
    return whole if min(late, whole) > 0 and still > _STILL * whole and late > whole / 4 else 0.0
