"""Draw memory by process as stacked areas."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from dltutor.display.style import ALARM, TEXT, color_of
from dltutor.observation.memory.process_curves import Floats
from dltutor.observation.memory.timeline import Timeline
from dltutor.tables import MB, size

_MOST_LAYERS: Final = 8  # if there are more workers than this, they share one layer
_NEAR: Final = 0.5  # draw the limit if more than this fraction of the limit is in use
_ABOVE_LIMIT: Final = 15  # points between the limit and the label of a process that died
_LINE: Final = 0.075  # the height of a label, as a fraction of the axes' height


@dataclass(frozen=True)
class Areas:
    """The layers of a stacked chart, from the bottom up, at the moments when memory is known.

    Args:
        kind: "PSS", or "USS" if there is no PSS.
        seconds: The moments, in seconds since the recording began.
        layers: Role (or "9 workers", if they share a layer) -> memory in MB at each moment, or 0
            where the role's memory isn't known.
    """

    kind: str
    seconds: Floats
    layers: dict[str, Floats]

    @property
    def total(self) -> Floats:
        """The sum of all layers, in MB."""
        return sum(self.layers.values(), start=np.zeros(len(self.seconds)))

    @property
    def peak(self) -> float:
        """The highest total in MB, or 0 if nothing is known."""
        return float(self.total.max(initial=0))


def areas(timeline: Timeline) -> Areas:
    """Return a timeline's layers for `draw_areas`. More than 8 workers share one layer."""
    curves = {role: timeline.memory_curve(role) / MB for role in timeline.roles}
    known = np.zeros(len(timeline.seconds), bool)
    for values in curves.values():
        known |= ~np.isnan(values)
    layers = {role: np.nan_to_num(values[known]) for role, values in curves.items()}
    workers = timeline.workers
    if len(workers) > _MOST_LAYERS:
        together = np.sum([layers.pop(role) for role in workers], axis=0)
        main = {"main": layers.pop("main")} if "main" in layers else {}
        layers = {**main, f"{len(workers)} workers": together, **layers}
    return Areas(timeline.kind or "PSS", timeline.seconds[known], layers)


def draw_areas(axes: Axes, drawn: Areas, timeline: Timeline, top: float) -> None:
    """Draw the areas, their total, the limit if it's near, and the processes that died.

    If there are no layers, write that nothing was recorded, and add the recording's notes. `top` is
    the highest total that must fit, in MB.
    """
    axes.set_ylabel(f"{drawn.kind} in MB")
    limit = (timeline.limits.memory or 0) / MB
    near = top > _NEAR * limit > 0
    if drawn.layers:
        colors = [color_of_layer(label) for label in drawn.layers]
        axes.stackplot(drawn.seconds, *drawn.layers.values(), colors=colors, linewidth=0)
        axes.plot(drawn.seconds, drawn.total, "--", color=TEXT, linewidth=1.2)
        _mark_deaths(axes, drawn, timeline, limit if near else None)
    else:
        reasons = [fill(note, 32) for note in ("nothing was recorded", *timeline.notes)]
        text = "\n".join(reasons)
        axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    if near:
        axes.axhline(limit, color=ALARM, linewidth=1.2)
        place = axes.get_yaxis_transform()
        axes.text(0.01, limit, f"limit {size(limit * MB)}\n", va="center", transform=place)
        top = max(top, limit)
    axes.set_ylim(0, (1.3 if near else 1.2) * top or 1)
    axes.margins(x=0.01)


def label_areas(axes: Axes, drawn: Areas) -> None:
    """Mark the peak, and list its size and each layer's size at that moment on the right."""
    if not drawn.layers:
        return
    moment = int(drawn.total.argmax())
    axes.plot(drawn.seconds[moment], drawn.peak, "o", color=TEXT, markersize=4)
    base, free = 0.0, 0.0
    for label, values in drawn.layers.items():
        height = float(values[moment])
        free = _label(axes, max(base + height / 2, free), label, height, color_of_layer(label))
        base += height
    _label(axes, max(drawn.peak, free), "peak", drawn.peak, TEXT)


def _label(axes: Axes, height: float, label: str, value: float, color: str) -> float:
    place = axes.get_yaxis_transform()
    axes.plot(1.03, height, "s", color=color, clip_on=False, transform=place)
    axes.text(1.06, height, f"{label}  {size(value * MB)}", va="center", transform=place)
    return height + _LINE * axes.get_ylim()[1]


def _mark_deaths(axes: Axes, drawn: Areas, timeline: Timeline, limit: float | None) -> None:
    for process in timeline.processes:
        if process.died and process.rows.stop > process.rows.start:
            last = float(timeline.seconds[process.rows][-1])
            height = float(np.interp(last, drawn.seconds, drawn.total))
            late = last > float(np.mean(drawn.seconds))
            axes.plot(last, height, "X", color=ALARM, markersize=10, markeredgecolor="white")
            axes.annotate(
                f"{process.role} {process.died}",
                (last, height if limit is None else limit),
                (4 if late else -4, 9 if limit is None else _ABOVE_LIMIT),
                textcoords="offset points",
                ha="right" if late else "left",
            )


def color_of_layer(label: str) -> str:
    """Return the color for a layer's role, or W0's color if all workers share the layer."""
    return color_of("W0" if label.endswith(" workers") else label)
