"""Measure the time of the import and the chart's first row, and the memory that `observe` adds."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import psutil
from kernel import Kernel, Message, kernel
from measure import MB, Table, added, benchmark, in_turn, spread
from work import Loop, make_loader, watched

_HEAVY = ("torch", "matplotlib", "anywidget", "numpy")
_LOADED = f"import dltutor, sys; print(*[name for name in {_HEAVY!r} if name in sys.modules])"


def milliseconds(code: str) -> float:
    """Return how many milliseconds a new Python takes to start, run some code, and exit."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return 1000 * (time.perf_counter() - began)


def imports(rounds: int) -> Table:
    """Measure how long `import dltutor` takes, without the time that Python needs to start."""
    found = in_turn(
        {code: partial(milliseconds, code) for code in ("pass", "import dltutor")}, rounds
    )
    plain = found["pass"]
    loaded = subprocess.check_output([sys.executable, "-c", _LOADED], text=True).split()
    return Table(
        "`import dltutor`",
        ["Python alone", "on top of it", f"of {', '.join(_HEAVY)} it loads"],
        [
            [
                spread(plain, "{:.0f} ms"),
                added(found["import dltutor"], plain, "{:.0f} ms"),
                ", ".join(loaded) or "none",
            ]
        ],
        f"{rounds} rounds.",
    )


def memory(how: str, seconds: float) -> list[float]:
    """Run a loop, and return this process's USS in MB before the workers end and afterward.

    `how` is "plain", "observe", or "live".
    """
    sizes: list[float] = []

    def weigh() -> None:
        sizes.append(psutil.Process().memory_full_info().uss / MB)

    watched(how, make_loader("cheap", 2), Loop(seconds, then=weigh))
    weigh()
    return sizes


def in_a_script(how: str, seconds: float) -> list[float]:
    """Call `memory` in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(memory, how, seconds).result()


def in_a_kernel(how: str, seconds: float) -> list[float]:
    """Call `memory` in a new notebook kernel."""
    with kernel() as notebook:
        sizes: list[float] = notebook.value(f"import start\nstart.memory({how!r}, {seconds})")
        return sizes


def growth(rounds: int, seconds: float) -> Table:
    """Measure the memory that `observe` adds to the process that calls it."""
    rows = []
    for where, run, how in (
        ("script", in_a_script, "observe"),
        ("kernel", in_a_kernel, "observe"),
        ("kernel", in_a_kernel, "live"),
    ):
        found = in_turn({each: partial(run, each, seconds) for each in ("plain", how)}, rounds)
        cells = [where, "`observe(live=True)`" if how == "live" else "`observe`"]
        for moment in (0, 1):
            ours, plain = ([run[moment] for run in found[each]] for each in (how, "plain"))
            cells.append(added(ours, plain, "{:.1f} MB"))
        rows.append(cells)
    return Table(
        "Memory that it adds to main",
        ["in a", "with", "while it runs", "afterwards"],
        rows,
        "USS of main, minus that of the same work without `observe`, including its imports. "
        f"{rounds} rounds, each run in a new process. After a live run, the final figure is in "
        "memory, too, and matplotlib with it.",
    )


CELL = """
import time, start
began = time.monotonic()
start.memory('live', 1.0)
began
"""


def charts(rounds: int) -> Table:
    """Measure how long after a call to `observe` the chart's first row reaches the client."""
    with kernel() as notebook:
        # Import these first, because in a lesson, earlier cells have already imported them.
        notebook.run("import start, dltutor.display.instruments")
        waits = [_first_row(notebook) for _ in range(rounds)]
    return Table(
        "From the call to the first row of the chart",
        ["first call in a kernel", "later calls"],
        [[f"{1000 * waits[0]:.0f} ms", spread([1000 * each for each in waits[1:]], "{:.0f} ms")]],
        f"1 and {rounds - 1} calls. The time until the row has reached the client. The browser "
        "takes a few more milliseconds to draw it. The first call imports anywidget.",
    )


def _first_row(notebook: Kernel) -> float:
    rows: list[float] = []

    def see(message: Message) -> None:
        data: dict[str, Any] = message["content"].get("data", {})
        if message["msg_type"] == "comm_msg" and data.get("state", {}).get("row"):
            rows.append(time.monotonic())

    notebook.seen = see
    began: float = notebook.value(CELL)
    return rows[0] - began


def measure(quick: bool) -> Iterator[Table]:
    """Yield the tables for the import, the chart's first row, and memory."""
    yield imports(3 if quick else 15)
    yield charts(2 if quick else 6)
    yield growth(1 if quick else 2, 0.3 if quick else 1.5)


if __name__ == "__main__":
    benchmark("start", measure)
