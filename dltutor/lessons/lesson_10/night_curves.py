"""How several nights went on from their first readings, as curves side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib import rc_context

from dltutor.display.figure import MemoryFigure
from dltutor.display.style import ALARM, MAIN, OTHER, STYLE, WORKERS
from dltutor.lessons.lesson_10.night import READ_EVERY, Night

_COLOURS: Final = {
    "each worker": WORKERS[0],
    "main": MAIN,
    "shared memory": OTHER,
    "broken": ALARM,
    "mended": WORKERS[1],
}
_DASHES: Final = {"shared memory": (4, 2), "mended": (4, 2)}


def draw_nights(nights: Mapping[str, Night]) -> MemoryFigure:
    """By how much each worker, main and shared memory grew, step by step.

    Args:
        nights: By the letter of the job.
    """
    return _draw(
        {
            job: {"each worker": night.workers, "main": night.main, "shared memory": night.shared}
            for job, night in nights.items()
        }
    )


def draw_mended(
    broken: Mapping[str, Night], mended: Mapping[str, Night], grows: Mapping[str, str]
) -> MemoryFigure:
    """What grew in each job, before and after.

    Args:
        broken: By the letter of the job.
        mended: Likewise.
        grows: Job -> what grew in it: a field of Night.
    """
    return _draw(
        {
            job: {"broken": getattr(broken[job], of), "mended": getattr(mended[job], of)}
            for job, of in grows.items()
        }
    )


def _draw(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> MemoryFigure:
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(7.2, 3.0))
        row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (job, lines) in zip(row, panels.items(), strict=True):
            axes.set_title(job, fontweight="bold")
            axes.set_xlabel("steps")
            for name, readings in lines.items():
                steps = [READ_EVERY * number for number in range(len(readings))]
                dashes = {"dashes": _DASHES[name]} if name in _DASHES else {}
                more = [reading - readings[0] for reading in readings]
                axes.plot(steps, more, color=_COLOURS[name], label=name, linewidth=2, **dashes)
        row[0].set_ylabel("MB more than at first")
        marks, names = row[0].get_legend_handles_labels()
        figure.legend(marks, names, loc="outside lower center", ncols=3, frameon=False)
    return figure
