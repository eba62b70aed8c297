"""Show one run in a notebook: the live chart while it runs, then a figure that stays."""

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
    """A display for one run: a live chart and then a figure, in the running cell's output.

    Outside a notebook, a Screen does nothing and imports nothing. `options` are for Chart.
    """

    def __init__(self, title: str, **options: Any) -> None:
        self._title = title
        self._chart: Chart | None = None
        if on_a_page():
            from dltutor.display.chart import Chart

            self._chart = Chart(title, limits=_limits(), **options)

    @property
    def listeners(self) -> Sequence[Callable[[Moment], None]]:
        return [self._chart.add] if self._chart else []

    def show(self) -> None:
        """Show the chart in the running cell's output."""
        if self._chart:
            _display(self._chart)

    def finish(self, how: str, timeline: Timeline | None) -> None:
        """Show how the run ended, in a few words, and a figure of the record, if there is one.

        The figure appears in the running cell's output and stays in the saved notebook.
        """
        if not self._chart:
            return
        self._chart.finish(how, timeline)
        if timeline is not None:
            from dltutor.display.figure import draw

            _display(draw(timeline, title=self._title))


def on_a_page() -> bool:
    """Return whether this process runs a notebook."""
    ipython = sys.modules.get("IPython")  # a notebook's process has imported IPython
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
