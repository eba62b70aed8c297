"""Measure how much CPU time `observe` needs to sample memory, as the memory grows."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise, repeat
from pathlib import Path
from statistics import median

import psutil
from measure import MB, Table, benchmark
from work import names  # also imports torch, so this process is as large as one that trains

from dltutor.observation.memory import sampler as program
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.sampler import Sampler
from dltutor.system.process_memory import Proc

_CHEAP, _FULL = 40, 9  # how many samples of each kind we time
_AT_ONCE = 2  # rows of the table to measure at once, because each measurement mostly sleeps


@contextmanager
def workers(count: int) -> Iterator[None]:
    """Run the block next to `count` forks of this process, which share its memory and sleep."""
    fork = multiprocessing.get_context("fork")
    asleep = [fork.Process(target=time.sleep, args=(600,)) for _ in range(count)]
    for process in asleep:
        process.start()
    try:
        yield
    finally:
        for process in asleep:
            process.kill()
            process.join()


def milliseconds(sampling: Sampler, *, full: bool) -> float:
    """Return the median CPU time of a sample in ms. A full sample also reads USS and PSS."""
    costs = []
    for _ in range(_FULL if full else _CHEAP):
        before = time.process_time()
        sampling.look(full=full)
        costs.append(1000 * (time.process_time() - before))
    return median(costs)


def share(seconds: float) -> tuple[float, float, list[float]]:
    """Record this process for some seconds, and measure the CPU time of the Recorder's helper.

    Returns:
        The share of a core that the helper used from start to end, the share that it used after
        its first full sample, and the seconds at which it read USS and PSS.
    """
    read: list[float] = []
    spent: list[tuple[float, float]] = []  # the time, and the CPU seconds so far

    def note() -> None:
        (helper,) = (
            child for child in psutil.Process().children() if program.__file__ in child.cmdline()
        )
        # Unlike psutil, this file counts nanoseconds. It counts one thread, and the helper has one.
        used = Path(f"/proc/{helper.pid}/schedstat").read_text().split()[0]
        spent.append((time.monotonic(), int(used) / 1e9))

    def listen(sample: Moment) -> None:
        if any(process.uss is not None for process in sample.processes.values()):
            read.append(sample.seconds)
            note()

    recorder = Recorder(listeners=[listen])
    began = time.monotonic()
    recorder.start()
    try:
        time.sleep(seconds)
        note()
    finally:
        recorder.stop()
    (at, first), (now, used) = spent[0], spent[-1]
    return used / (now - began), (used - first) / (now - at), read


def one(gigabytes: float, count: int, seconds: float) -> list[str]:
    """Measure and return one row of the table.

    Args:
        gigabytes: The size of the list of strings that the processes share, in GB.
        count: The number of forked workers.
        seconds: How long to record the helper's share of a core.
    """
    held = names(gigabytes * 1e9)
    with workers(count):
        sampling = Sampler(Proc(), os.getpid(), memory_period=1e9, memory_budget=1)
        for _ in range(3):
            sampling.look()
        cheap, full = milliseconds(sampling, full=False), milliseconds(sampling, full=True)
        whole, later, read = share(seconds)
    rss = psutil.Process().memory_info().rss
    del held
    gaps = [after - before for before, after in pairwise(read)]
    return [
        f"{gigabytes:g} GB" if gigabytes else "none",
        f"1 + {count}" if count else "1",
        f"{rss / MB:.0f} MB",
        f"{cheap:.2f}",
        f"{full:.1f}",
        f"{100 * whole:.2f} %",
        f"{100 * later:.2f} %",
        f"{median(gaps):.1f} s" if gaps else f"over {seconds:.0f} s",
    ]


def measure(quick: bool) -> Iterator[Table]:
    """Yield the table, after measuring each row in its own process."""
    seconds = 3.0 if quick else 30.0
    cases = [(0.0, 0), (0.0, 2), (0.0, 8)] + [(size, 4) for size in (0.1, 0.5, 1.0, 2.0, 4.0)]
    if quick:
        cases = [(0.0, 0), (0.1, 4)]
    fit = 0.3 * psutil.virtual_memory().available
    left_out = [f"{size:g} GB" for size, _ in cases if size * 1e9 > fit]

    spawn = multiprocessing.get_context("spawn")
    fitting = [case for case in cases if case[0] * 1e9 <= fit]
    with ProcessPoolExecutor(_AT_ONCE, spawn, max_tasks_per_child=1) as pool:
        rows = list(pool.map(one, *zip(*fitting, strict=True), repeat(seconds)))
    note = (
        "A list of strings, and forked workers that share it. A cheap sample has RSS, faults, "
        "threads, and descriptors of all processes, and a full one also has USS and PSS. The "
        f"helper's share of one core is over {seconds:g} s, from its start and after its first "
        f"full sample. {_AT_ONCE} rows are measured at the same time."
    )
    if left_out:
        note += f" Left out, because there isn't enough free memory: {', '.join(left_out)}."
    yield Table(
        "Cost of one sample, and the helper's share of a core",
        [
            "list",
            "processes",
            "RSS of main",
            "cheap, ms",
            "full, ms",
            "helper",
            "after the first",
            "between two full",
        ],
        rows,
        note,
    )


if __name__ == "__main__":
    benchmark("cost", measure)
