"""The live chart: a widget that draws memory by process while the cell is still busy.

The browser keeps the drawing; Python sends one small row for each moment, and
what is settled of the estimates in the rows before it.
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
_MOST_ROWS: Final = 400  # kept for a view that opens late
_RESENT: Final = (4, 16)  # rows: the first ones may have come before the browser was ready

Row = dict[str, Any]


class Chart(anywidget.AnyWidget):
    """A chart of what a Recorder samples; `add` is its listener.

    Args:
        title: What runs.
        limits: Bytes of "memory" and "shm", and the number of "files" for each process: those
            of them that are known.
        counted: Whether batches are counted, even before the first one.
        window: Show the last so many seconds; 0 shows all.
        alone: Where it is displayed anew it leaves its old place.
    """

    _esm = _STATIC / "chart.js"
    _css = _STATIC / "chart.css"

    title = traitlets.Unicode().tag(sync=True)
    limits = traitlets.Dict().tag(sync=True)
    window = traitlets.Float().tag(sync=True)
    alone = traitlets.Bool().tag(sync=True)
    palette = traitlets.Dict().tag(sync=True)
    row = traitlets.Dict().tag(sync=True)
    end = traitlets.Dict().tag(sync=True)
    # Appended to and never assigned, so not sent with a row; a view that opens late, or a page
    # that is loaded again, gets it with the whole state.
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
        super().__init__(
            title=title,
            limits=dict(limits),
            window=window,
            alone=alone,
            palette={
                "main": style.MAIN,
                "workers": list(style.WORKERS),
                "other": style.OTHER,
                "alarm": style.ALARM,
            },
        )
        self._counted = counted
        self._others = False
        self._gone: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # What a saved notebook shows: always the same words, so that notebooks can be compared.
        return "Live chart of memory by process. It moves while the notebook runs."

    def add(self, moment: Moment) -> None:
        """Draw one more moment. Called in the Recorder's thread: it only sends the row.

        A moment in which a process without a name turns up is not drawn: it is most often a worker,
        and has its name in the next one.
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
        """Say that no sample follows.

        Args:
            how: The end in a few words.
            timeline: What was recorded, if it is shown as a figure from now on: the chart then
                folds to one line. It knows better than the samples who died.
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
    """Fewer rows, the last one among them.

    Args:
        rows: All of them.
        window: Keep those of the last so many seconds; 0 makes one of every two instead.
    """
    if window:
        return [row for row in rows if row["t"] >= rows[-1]["t"] - window]
    odd = len(rows) % 2
    return rows[:odd] + [
        _joined(*pair) for pair in zip(rows[odd::2], rows[odd + 1 :: 2], strict=True)
    ]


def _joined(one: Row, next_: Row) -> Row:
    # Who ended in the row that is left out.
    gone = one.get("gone", []) + next_.get("gone", [])
    return {**next_, **({"gone": gone} if gone else {})}
