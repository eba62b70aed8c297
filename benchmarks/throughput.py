"""Measure how much slower a loader is under `observe`, with and without the live chart.

`python throughput.py --pairs` measures only pairs of epochs, which takes 8 minutes, and writes
nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import comm
from comm.base_comm import BaseComm
from kernel import kernel
from measure import Table, added, benchmark, in_turn, ratio, spread
from work import KINDS, Loop, make_loader, watched

from dltutor.display.chart import Chart
from dltutor.observation.observing import observe

Run = dict[str, float]

_PAIRS, _EPOCH = 15, 5.0  # how many pairs, and about how many seconds per epoch


class Wire(BaseComm):
    """A connection without a browser, which serializes each message and throws it away."""

    def publish_msg(self, msg_type: str, data: Any = None, **others: Any) -> None:
        json.dumps(data)


def once(how: str, kind: str, workers: int, seconds: float) -> Run:
    """Run one of `make_loader`'s loaders for some seconds, and measure its speed.

    `how` is "plain", "observe", "live", or "stand-in" for a chart connected to a Wire.

    Returns:
        Batches per second ("rate"), and the seconds before the first batch ("start") and after the
        last ("stop").
    """
    loader, loop = make_loader(kind, workers), Loop(seconds)
    began = time.perf_counter()
    if how == "stand-in":
        chart = Chart("stand-in", limits={}, counted=True)
        observe(loader, deadline=600, consume=loop, listeners=[chart.add])
    else:
        watched(how, loader, loop)
    return {
        "rate": loop.rate,
        "start": loop.first - began,
        "stop": time.perf_counter() - loop.last,
    }


def rounds(
    hows: list[str], kind: str, workers: int, seconds: float, count: int
) -> dict[str, dict[str, list[float]]]:
    """Run a loader in several ways, alternating, after a short run of each that does the imports.

    Returns:
        For each way, lists of the numbers that `once` returned, by name, with one per round.
    """
    for how in hows:
        once(how, kind, workers, 0.1)
    runs = in_turn({how: partial(once, how, kind, workers, seconds) for how in hows}, count)
    return {how: by_name(found) for how, found in runs.items()}


def by_name(runs: list[Run]) -> dict[str, list[float]]:
    """Turn a list of runs into a list of numbers for each name."""
    return {name: [run[name] for run in runs] for name in runs[0]}


def row(where: str, kind: str, workers: int, how: str, found: dict[str, Any]) -> list[str]:
    """Make a row of the table, which compares one way to run a loader with the plain loop.

    `where` is "script" or "kernel", and `found` is what `rounds` returned. If `how` is "plain",
    compare each plain run with the next one.
    """
    plain, ours = found["plain"], found[how]
    head = [f"{KINDS[kind]}, {workers} workers", where]
    rate = spread(plain["rate"], "{:.0f}")
    if how == "plain":  # to show how much equal runs differ
        again = ratio(plain["rate"][1:], plain["rate"][:-1])
        return [*head, "the plain loop again", rate, again, "", ""]
    waits = (
        statistics.median(one - other for one, other in zip(ours[part], plain[part], strict=True))
        for part in ("start", "stop")
    )
    title = "`observe`" if how == "observe" else "`observe(live=True)`"
    more = [f"{1000 * wait:+.0f}" for wait in waits]
    return [*head, title, rate, ratio(ours["rate"], plain["rate"]), *more]


def epoch(how: str, kind: str, batches: int) -> Run:
    """Run one "plain" epoch with two workers, or one in `observe`, and measure speed and CPU time.

    Returns:
        Batches per second from the first batch to the last ("inside") and over the whole call
        ("whole"), and the CPU time of all processes in milliseconds ("cpu").
    """
    loader, came = make_loader(kind, 2, batches), [0.0] * batches

    def loop(loader: Any) -> None:
        for number, _ in enumerate(loader):
            came[number] = time.perf_counter()

    used, began = sum(os.times()[:4]), time.perf_counter()
    watched(how, loader, loop)
    whole = time.perf_counter() - began
    return {
        "inside": (batches - 1) / (came[-1] - came[0]),
        "whole": batches / whole,
        "cpu": 1000 * (sum(os.times()[:4]) - used),
    }


def pairs(count: int, seconds: float) -> Table:
    """Compare `count` epochs in `observe` with plain ones, each about `seconds` seconds long."""
    rows = []
    for kind, title in (("jpeg", "both cores busy: JPEG decoding"), ("wait", "samples that wait")):
        loop = Loop(min(seconds, 1.0))
        loop(make_loader(kind, 2))
        batches = max(2, round(loop.rate * seconds))
        epoch("observe", kind, 2)  # so that the timed epochs don't include imports
        variants = {
            how: partial(epoch, how.split()[0], kind, batches)
            for how in ("plain", "observe", "plain again")
        }
        plain, ours, again = map(by_name, in_turn(variants, count).values())
        rows.append(
            [
                title,
                spread(plain["inside"], "{:.0f}"),
                ratio(ours["inside"], plain["inside"]),
                ratio(again["inside"], plain["inside"]),
                ratio(ours["whole"], plain["whole"]),
                added(ours["cpu"], plain["cpu"], "{:+.0f}"),
            ]
        )
    return Table(
        "Pairs of epochs: with `observe`, and plain",
        [
            "loader",
            "plain, batches/s",
            "ratio, first to last batch",
            "of plain to plain",
            "of the whole call",
            "CPU, ms",
        ],
        rows,
        f"Two workers, {count} pairs of epochs of about {seconds:g} s, in alternating order. "
        "Ratio: batches per second with `observe` divided by those without, as the median of the "
        "pairs and, in parentheses, the middle half of them. Of plain to plain: the same for a "
        "second plain epoch, which shows the machine's noise. CPU: what main, the workers, and the "
        "helper used together, on top of the plain epoch.",
    )


def measure(quick: bool) -> Iterator[Table]:
    """Yield the tables for throughput and for pairs of epochs."""
    count, seconds = (2, 0.3) if quick else (7, 3.0)
    kinds, numbers = (["cheap"], [2]) if quick else (list(KINDS), [2, 8])
    rows = []
    comm.create_comm = Wire  # because a script has no browser
    for kind in kinds:
        for workers in numbers:
            found = rounds(["plain", "observe", "stand-in"], kind, workers, seconds, count)
            ways = ("observe", "stand-in", "plain")
            rows += [row("script", kind, workers, how, found) for how in ways]
    with kernel() as notebook:
        for kind in kinds:
            call = f"rounds(['plain', 'live'], {kind!r}, 2, {seconds}, {count})"
            found = notebook.value(f"from throughput import rounds\n{call}")
            rows.append(row("kernel", kind, 2, "live", found))
    yield Table(
        "Throughput with `observe`, compared with the plain loop",
        ["loader", "in a", "with", "plain, batches/s", "ratio", "start, ms", "stop, ms"],
        rows,
        f"{count} rounds of {seconds:g} s. Ratio: batches per second with `observe` divided by "
        "those of the plain loop, as the median of the pairs and, in parentheses, the middle half "
        "of them. Start and stop: the time on top of the plain loop's, before the first batch and "
        "after the last, which the ratio leaves out. In a script, the chart's messages go nowhere. "
        "In a kernel, a client receives them, and the stop includes the final figure.",
    )
    yield pairs(2, 0.3) if quick else pairs(_PAIRS, _EPOCH)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pairs"]:
        print(pairs(_PAIRS, _EPOCH))
    else:
        benchmark("throughput", measure)
