"""A screen for one run: the live chart while it lasts, the figure for good; or none of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.timeline import Timeline
from dltutor.system.this_machine import machine

if TYPE_CHECKING:
    from dltutor.display.chart import Chart


class Screen:
    """Shows one run on the page that the calling cell belongs to.

    Without a page (in a script, in a terminal) it does nothing, and loads nothing.

    Args:
        title: What runs.
        options: More of Chart's arguments.
    """

    def __init__(self, title: str, **options: Any) -> None:
        self._title = title
        self._chart: Chart | None = None
        if on_a_page():
            from dltutor.display.chart import Chart

            self._chart = Chart(title, limits=_limits(), **options)

    @property
    def listeners(self) -> Sequence[Callable[[Moment], None]]:
        """For a Recorder."""
        return [self._chart.add] if self._chart else []

    def show(self) -> None:
        """Put the chart into the output of the running cell."""
        if self._chart:
            _display(self._chart)

    def finish(self, how: str, timeline: Timeline | None) -> None:
        """Show how it ended.

        Args:
            how: In a few words.
            timeline: What was recorded. Its figure follows in the output of the running cell, and
                stays in the saved notebook. None where nothing is left of the record.
        """
        if not self._chart:
            return
        self._chart.finish(how, timeline)
        if timeline is not None:
            from dltutor.display.figure import draw

            _display(draw(timeline, title=self._title))


def on_a_page() -> bool:
    """Whether this process is a notebook's kernel."""
    ipython = sys.modules.get("IPython")  # where nobody has loaded it there is no kernel
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def _display(thing: object) -> None:
    from IPython.display import display

    display(thing)


def _limits() -> dict[str, int]:
    here = machine()
    known = {
        "memory": here.memory_limit or here.memory,
        "shm": here.shm,
        "files": here.open_files,
    }
    return {name: limit for name, limit in known.items() if limit}
