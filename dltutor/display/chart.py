"""The live chart: a widget that draws memory by process while the cell is still busy.

The browser keeps the picture; Python sends one small row for each sample.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from dltutor.display import style
from dltutor.observation.memory.moments import Moment, Reading
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
        self._layers = Layers()
        self._others = False
        self._gone: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # What a saved notebook shows: always the same words, so that notebooks can be compared.
        return "Live chart of memory by process. It moves while the notebook runs."

    def add(self, sample: Moment) -> None:
        """Draw one more sample. Called in the Recorder's thread: it only sends the row.

        A sample in which a process without a name turns up is not drawn: it is most often a worker,
        and has its name in the next one.
        """
        layers = self._layers.add(sample)
        self._gone += sample.gone
        unnamed, self._others = not self._others, "other" in layers
        if unnamed and self._others:
            return
        row = self._row(sample, layers)
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
        lives = timeline.lives if timeline else ()
        died = [[life.role, life.ended, life.died] for life in lives if life.died]
        self.end = {"how": how, "died": died, "folded": timeline is not None}

    def _row(self, sample: Moment, layers: dict[str, int]) -> Row:
        row: Row = {
            "t": round(sample.seconds, 3),
            "p": {role: [size >> 10, sample.processes[role].fds] for role, size in layers.items()},
            "shm": None if sample.shm is None else sample.shm >> 10,
            "kind": self._layers.kind,
        }
        if sample.batches or self._counted:
            row["n"] = sample.batches
        if self._gone:
            row["gone"], self._gone = [*self._gone], ()
        if any(process.uss is not None for process in sample.processes.values()):
            row["read"] = True
        return row


class Layers:
    """The height of each role in the stack, in every sample: PSS, also where it was not read.

    PSS is a process's private memory and its share of what it has in common with others. Between
    two readings a layer is its private memory of now (which page faults tell) on the share of the
    last reading. A page that a worker copies is a new page of the machine, and adds itself to the
    sum; a fork adds nothing. When a process ends, the others inherit its share: the pages are
    still there, with fewer to share them. So the sum of the layers moves only when memory does.
    """

    kind = ""

    def __init__(self) -> None:
        self._shared: dict[str, int] = {}

    def add(self, sample: Moment) -> dict[str, int]:
        """Bytes by role."""
        for role in self._shared.keys() - sample.processes.keys():
            self._inherit(self._shared.pop(role))
        return {role: self._layer(role, p) for role, p in sample.processes.items()}

    def _layer(self, role: str, process: Reading) -> int:
        if process.pss is not None:
            self.kind = "PSS"
            self._shared[role] = process.pss - (process.uss or 0)
            return process.pss
        if process.uss is not None:
            self.kind = self.kind or "USS"
        rss = process.rss or 0
        private = process.private
        if private is None:  # not read yet: what it has faulted in since it was forked
            private = rss if process.faults is None else min(process.faults * mmap.PAGESIZE, rss)
        return private + self._shared.get(role, 0)

    def _inherit(self, share: int) -> None:
        known = sum(self._shared.values())
        for role, own in self._shared.items():
            self._shared[role] += share * own // known if known else 0


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
    # Events of the row that is left out: who ended in it, and that memory was read.
    events = {
        "gone": one.get("gone", []) + next_.get("gone", []),
        "read": one.get("read") or next_.get("read"),
    }
    return {**next_, **{name: value for name, value in events.items() if value}}
