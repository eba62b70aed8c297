"""RSS, PSS and USS of one process in one figure: how much each of the three tells."""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib import rc_context

from dltutor.display.figure import MemoryFigure
from dltutor.display.stack import MB
from dltutor.display.style import MAIN, STYLE, TEXT, WORKERS
from dltutor.observation.memory.timeline import Timeline

_HOW: Final = (  # name, what it counts, color, dashes
    ("RSS", "all it can see", TEXT, "--"),
    ("PSS", "its share", MAIN, "-."),
    ("USS", "its own", WORKERS[0], "-"),
)


def draw_kinds(timeline: Timeline, role: str = "W0") -> MemoryFigure:
    """Draw the three ways to count the memory of one process.

    Args:
        timeline: What was recorded.
        role: Which process: main, W0, W1, ...

    Returns:
        The figure; a kind that this system does not know is left out.
    """
    rss = timeline.series(role, "rss")
    ending = rss < 0.5 * max(timeline.peak("rss", role), 0)  # it gives its memory back
    curves = [rss, timeline.pss_curve(role), timeline.private_curve(role)]
    curves = [np.where(ending, np.nan, curve) for curve in curves]
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(7.2, 3.0))
        axes = figure.subplots()
        axes.set_title(f"{role}: one process, counted in three ways")
        axes.set_xlabel("seconds")
        axes.set_ylabel("MB")
        for (name, what, color, dashes), curve in zip(_HOW, curves, strict=True):
            known = np.flatnonzero(~np.isnan(curve))
            if not known.size:
                continue
            last = known[-1]
            axes.plot(timeline.seconds, curve / MB, dashes, color=color, linewidth=2)
            axes.annotate(
                f"{name}: {what}",
                (timeline.seconds[last], curve[last] / MB),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                annotation_clip=False,
            )
        axes.set_ylim(bottom=0)
    return figure
