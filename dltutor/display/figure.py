"""Draw a timeline, two timelines side by side, or the growth in several timelines.

This module doesn't use pyplot, so there is no global state and no window. Draw in the main thread
only, because matplotlib holds locks while it draws. If another thread drew while main forked a
worker, and the worker drew something itself, the worker would wait for those locks forever.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from dltutor.display.areas import Areas, areas, color_of_layer, draw_areas, label_areas
from dltutor.display.style import OTHER, STYLE, color_of
from dltutor.observation.memory.process_curves import Field, Floats
from dltutor.observation.memory.timeline import Timeline
from dltutor.tables import MB, size

_WIDTH: Final = 7.2  # inches, at 100 pixels per inch
_GROWTH: Final[tuple[tuple[Field, float, float, str], ...]] = (
    # field, unit, lowest top of the scale (so that noise doesn't look like growth), label
    ("uss", MB, 20, "private MB"),
    ("pss_shm", MB, 10, "MB in shared\nmemory"),
    ("fds", 1, 20, "open\ndescriptors"),
)


class MemoryFigure(Figure):
    """A matplotlib Figure that a notebook shows as an image, even without pyplot."""

    def __repr__(self) -> str:
        return "<Figure: memory by process>"

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", facecolor=self.get_facecolor())
        return file.getvalue()


def draw(timeline: Timeline, *, title: str | None = None) -> MemoryFigure:
    """Draw memory by process, `/dev/shm`, and open descriptors over time.

    Args:
        timeline: The record, which may be empty.
        title: The title. If None, it's "Memory by process".

    Returns:
        The figure, whose areas add up to the memory that the run used (PSS) or, if PSS isn't known,
        to the run's private memory (USS). 1 MB is 1024 x 1024 bytes.
    """
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(_WIDTH, 4.2))
        memory, shm, files = figure.subplots(3, 1, sharex=True, height_ratios=[6, 1, 1])
        drawn = areas(timeline)
        draw_areas(memory, drawn, timeline, drawn.peak)
        label_areas(memory, drawn)
        memory.set_title(title or "Memory by process")
        _draw_strip(shm, "/dev/shm", timeline.seconds, [(OTHER, timeline.shm)], size)
        fds = [(color_of(role), timeline.series(role, "fds")) for role in timeline.roles]
        _draw_strip(files, "open files", timeline.seconds, fds, "{:.0f}".format)
        files.set_xlabel("seconds")
    return figure


def compare(
    before: Timeline, after: Timeline, *, labels: tuple[str, str] = ("broken", "fixed")
) -> MemoryFigure:
    """Draw two runs side by side on one scale.

    Args:
        before: The left run's record.
        after: The right run's record.
        labels: The two runs' names.

    Returns:
        A figure with each run's memory by process as stacked areas, and one legend. Each run's
        title shows the run's peak, and the most private memory that its workers held together.
    """
    timelines = (before, after)
    both = (areas(before), areas(after))
    top = max(drawn.peak for drawn in both)
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(_WIDTH, 3.4))
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, timeline, drawn, label in zip(panels, timelines, both, labels, strict=True):
            draw_areas(axes, drawn, timeline, top)
            axes.set_title(f"{label}\n{_summary(timeline, drawn)}")
            axes.set_xlabel("seconds")
        panels[1].set_ylabel("")
        names = dict.fromkeys(name for drawn in both for name in drawn.layers)
        marks = [Patch(color=color_of_layer(name)) for name in names]
        figure.legend(
            marks, list(names), loc="outside lower center", ncols=5, frameon=False, handlelength=0.8
        )
    return figure


def draw_growth(timelines: Mapping[str, Timeline]) -> MemoryFigure:
    """Draw how much several runs grew, on one scale.

    Growth counts from the moment when as many batches have arrived as there are workers, until the
    last batch. If no batches were counted, growth counts over the whole run.

    From top to bottom, the figure shows each process's private memory (USS) and its share of shared
    memory, both only at the moments when the sampler read them, and its open file descriptors.
    Shared memory that only one process has mapped counts as that process's private memory, too.

    Args:
        timelines: Each run's name -> its record.
    """
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(_WIDTH, 5.0))
        columns = len(timelines)
        options: Any = {"sharex": "col", "sharey": "row", "squeeze": False}
        panels = figure.subplots(3, columns, height_ratios=[5, 3, 3], **options)
        for column, (label, timeline) in zip(panels.T, timelines.items(), strict=True):
            column[0].set_title(label, fontweight="bold")
            column[-1].set_xlabel("seconds")
            for role in timeline.roles:
                # A role may also name the loader, as "W1 of images". W0 shows through a dashed W1.
                dashes = "--" if role.partition(" ")[0][-1] in "13579" else "-"
                for axes, (field, unit, *_) in zip(column, _GROWTH, strict=True):
                    seconds, more = timeline.since_first_batch(timeline.series(role, field))
                    look = {"color": color_of(role), "label": role, "linewidth": 2}
                    axes.plot(seconds, more / unit, dashes, **look)
        for axes, (_, _, least, label) in zip(panels[:, 0], _GROWTH, strict=True):
            axes.set_ylabel(label)
            axes.set_ylim(top=max(least, axes.get_ylim()[1]))
        figure.align_ylabels()
        figure.suptitle("Growth since the first batch", x=0.01, ha="left")
        lines = {line.get_label(): line for axes in panels[0] for line in axes.lines}
        figure.legend(lines.values(), lines, loc="outside lower center", ncols=5, frameon=False)
    return figure


def _summary(timeline: Timeline, drawn: Areas) -> str:
    peak = f"peak {size(drawn.peak * MB)}" if drawn.layers else ""
    if not timeline.workers:
        return peak + "\n"
    curves = [timeline.private_curve(role) for role in timeline.workers]
    together = float(np.nansum(curves, axis=0).max(initial=0))
    return f"{peak}\nworkers hold {size(together)} of their own"


def _draw_strip(
    axes: Axes,
    label: str,
    seconds: Floats,
    lines: list[tuple[str, Floats]],
    text: Callable[[float], str],
) -> None:
    axes.set_ylabel(label, rotation=0, ha="right", va="center")
    axes.set_yticks([])
    for color, values in lines:
        axes.plot(seconds, values, color=color, linewidth=1.5)
    highest = max((float(np.nanmax(v)) for _, v in lines if not np.isnan(v).all()), default=None)
    if highest is None:
        axes.text(0.5, 0.5, "not known", ha="center", va="center", transform=axes.transAxes)
        return
    axes.set_ylim(0, 1.3 * highest or 1)
    axes.text(1.06, 0.5, f"max {text(highest)}", va="center", transform=axes.transAxes)
