"""How much slower is a loader while `observe` looks at it, with and without the live chart?"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import comm
from comm.base_comm import BaseComm
from kernel import kernel
from measure import Table, benchmark, in_turn, ratio, spread
from work import KINDS, Loop, make_loader

from dltutor import observe
from dltutor.display.chart import Chart
from dltutor.observation.observing import observe as observe_unseen

Run = dict[str, float]


class Wire(BaseComm):
    """A connection to a browser that is not there: a message is written out, and goes nowhere."""

    def publish_msg(self, msg_type: str, data: Any = None, **others: Any) -> None:
        json.dumps(data)


def on_the_wire() -> None:
    """Let every widget that is made from now on talk to nobody."""
    comm.create_comm = Wire


def once(how: str, kind: str, workers: int, seconds: float) -> Run:
    """Run one loader once.

    Args:
        how: "plain", "observe", "live", or "stand-in" for a chart that talks to nobody.
        kind: Which loader.
        workers: How many.
        seconds: How long it counts.

    Returns:
        Batches a second, and the seconds before the first batch and after the last.
    """
    loader, loop = make_loader(kind, workers), Loop(seconds)
    began = time.perf_counter()
    if how == "plain":
        loop(loader)
    elif how == "stand-in":
        chart = Chart("stand-in", limits={}, counted=True)
        observe_unseen(loader, deadline=600, consume=loop, listeners=[chart.add])
    else:
        observe(loader, deadline=600, consume=loop, live=how == "live")
    return {
        "rate": loop.rate,
        "start": loop.first - began,
        "stop": time.perf_counter() - loop.last,
    }


def rounds(
    hows: list[str], kind: str, workers: int, seconds: float, count: int
) -> dict[str, list[Run]]:
    """Run one loader in each way in turn, once more at first to load what is needed."""
    for how in hows:
        once(how, kind, workers, 0.1)
    variants: dict[str, Callable[[], Run]] = {
        how: partial(once, how, kind, workers, seconds) for how in hows
    }
    return in_turn(variants, count)


def row(where: str, kind: str, workers: int, how: str, found: dict[str, list[Run]]) -> list[str]:
    """One row of the table: one way beside the plain loop."""
    plain, ours = found["plain"], found[how]

    def more(part: str) -> str:
        added = [1000 * (one[part] - other[part]) for one, other in zip(ours, plain, strict=True)]
        return f"{statistics.median(added):+.0f}"

    rates = [[run["rate"] for run in runs] for runs in (ours, plain)]
    return [
        f"{KINDS[kind]}, {workers} workers",
        where,
        {"observe": "`observe`"}.get(how, "`observe(live=True)`"),
        spread(rates[1], "{:.0f}"),
        ratio(*rates),
        more("start"),
        more("stop"),
    ]


def itself(kind: str, workers: int, found: list[Run]) -> list[str]:
    """A row that shows the noise: the plain loop beside itself one round later."""
    rates = [run["rate"] for run in found]
    return [
        f"{KINDS[kind]}, {workers} workers",
        "script",
        "the plain loop again",
        spread(rates, "{:.0f}"),
        ratio(rates[1:], rates[:-1]),
        "",
        "",
    ]


def measure(quick: bool) -> Iterator[Table]:
    """The table."""
    count, seconds = (2, 0.3) if quick else (7, 3.0)
    kinds, numbers = (["cheap"], [2]) if quick else (list(KINDS), [2, 8])
    rows = []
    on_the_wire()
    for kind in kinds:
        for workers in numbers:
            found = rounds(["plain", "observe", "stand-in"], kind, workers, seconds, count)
            rows += [row("script", kind, workers, how, found) for how in ("observe", "stand-in")]
            rows.append(itself(kind, workers, found["plain"]))
    with kernel() as notebook:
        for kind in kinds:
            call = f"rounds(['plain', 'live'], {kind!r}, 2, {seconds}, {count})"
            found = notebook.value(f"from throughput import rounds\n{call}")
            rows.append(row("kernel", kind, 2, "live", found))
    yield Table(
        "Throughput with `observe` beside the plain loop",
        ["loader", "in a", "with", "plain, batches/s", "ratio", "start, ms", "stop, ms"],
        rows,
        f"{count} rounds of {seconds:g} s. Ratio: with, divided by plain; the median of the pairs "
        "and, in parentheses, the middle half of them. Start and stop: what comes on top of the "
        "plain loop's own, before the first batch and after the last; not in the ratio. In a "
        "script the chart talks to nobody; in a kernel a client takes what it sends, and the stop "
        "includes the final figure.",
    )


if __name__ == "__main__":
    benchmark("throughput", measure)
