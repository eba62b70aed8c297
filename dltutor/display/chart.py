"""Define the live chart, a widget that draws memory by process while the cell is still running.

The browser does the drawing. For each moment, Python sends one small row, and corrections to the
estimates in earlier rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from dltutor.display import style
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.timeline import Timeline

_STATIC: Final = Path(__file__).parent.parent / "static"
_MOST_ROWS: Final = 400  # the most rows to keep for a view that opens late
_RESENT: Final = (4, 16)  # row counts at which to send all rows again, in case some got lost

Row = dict[str, Any]


class Chart(anywidget.AnyWidget):
    """A live chart of a Recorder's samples. The chart's `add` is a listener for the Recorder.

    Args:
        title: The name of the run.
        limits: The known limits on "memory" and "shm" in bytes, and on "files" for each process.
        counted: Whether to show the number of batches even before the first one.
        window: How many seconds to show, up to the last sample. If 0, show all.
        alone: Whether the chart disappears from its old cell when another cell displays it.
    """

    _esm = _STATIC / "chart.js"
    _css = _STATIC / "chart.css"

    title = traitlets.Unicode().tag(sync=True)
    limits = traitlets.Dict().tag(sync=True)
    window = traitlets.Float().tag(sync=True)
    alone = traitlets.Bool().tag(sync=True)
    palette = traitlets.Dict(
        {
            "main": style.MAIN,
            "workers": list(style.WORKERS),
            "other": style.OTHER,
            "alarm": style.ALARM,
        }
    ).tag(sync=True)
    row = traitlets.Dict().tag(sync=True)
    end = traitlets.Dict().tag(sync=True)
    # We change the history in place and never assign it, so that traitlets doesn't send all of it
    # with each row. A view that opens late, or a reloaded page, gets the history with the whole
    # state.
    history: traitlets.List[Row] = traitlets.List().tag(sync=True)

    def __init__(
        self,
        title: str,
        *,
        limits: Mapping[str, int],
        counted: bool = False,
        window: float = 0,
        alone: bool = False,
    ) -> None:
        super().__init__(title=title, limits=dict(limits), window=window, alone=alone)
        self._counted = counted
        self._others = False
        self._gone: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # Put the same words into every saved notebook, so that you can compare notebooks.
        return "Live chart of memory by process. It moves while the notebook runs."

    def add(self, moment: Moment) -> None:
        """Send one more moment to the browser. The Recorder calls `add` in the Recorder's thread.

        Skip a moment in which a process without a name appears, because the process is usually a
        worker that has its name by the next moment.
        """
        self._settle(moment)
        self._gone += moment.gone
        unnamed, self._others = not self._others, "other" in moment.processes
        if unnamed and self._others:
            return
        row = self._row(moment)
        self.history.append(row)
        if self.window or len(self.history) > _MOST_ROWS:
            self.history[:] = thinned(self.history, self.window)
        if len(self.history) in _RESENT:
            self.send_state("history")
        self.row = row

    def finish(self, how: str, timeline: Timeline | None) -> None:
        """Show that the run has ended, and `how`, in a few words.

        If there is a timeline, fold the chart to one line, because a figure shows the rest, and
        show the processes that died, which the samples don't always show.
        """
        processes = timeline.processes if timeline else ()
        died = [[each.role, each.ended, each.died] for each in processes if each.died]
        self.end = {"how": how, "died": died, "folded": timeline is not None}

    def _settle(self, moment: Moment) -> None:
        settled = {_seconds(seconds): sizes for seconds, sizes in moment.settled}
        for row in reversed(self.history):
            if not settled or row["t"] < min(settled):
                break
            for role, size in settled.get(row["t"], {}).items():
                if role in row["p"]:
                    row["p"][role][0] = size >> 10

    def _row(self, moment: Moment) -> Row:
        row: Row = {
            "t": _seconds(moment.seconds),
            "p": {
                role: [(reading.memory or 0) >> 10, reading.fds]
                for role, reading in moment.processes.items()
            },
            "shm": None if moment.shm is None else moment.shm >> 10,
            "kind": moment.kind,
        }
        if moment.batches or self._counted:
            row["n"] = moment.batches
        if self._gone:
            row["gone"], self._gone = [*self._gone], ()
        if moment.settled:
            row["settled"] = [
                [_seconds(seconds), {role: size >> 10 for role, size in sizes.items()}]
                for seconds, sizes in moment.settled
            ]
        return row


def _seconds(seconds: float) -> float:
    return round(seconds, 3)


def thinned(rows: list[Row], window: float) -> list[Row]:
    """Return the rows of the last `window` seconds. If `window` is 0, merge every two rows instead.

    The rows are in order, oldest first, and the last one stays.
    """
    if window:
        return [row for row in rows if row["t"] >= rows[-1]["t"] - window]
    odd = len(rows) % 2
    return rows[:odd] + [
        _joined(*pair) for pair in zip(rows[odd::2], rows[odd + 1 :: 2], strict=True)
    ]


def _joined(one: Row, next_: Row) -> Row:
    # Keep the later row, and also the list of ended processes from the row that we drop.
    gone = one.get("gone", []) + next_.get("gone", [])
    return {**next_, **({"gone": gone} if gone else {})}
