"""Run the same work under other tools that watch memory, and compare the speed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import Table, benchmark, in_turn, ratio, spread
from work import KINDS

WORK = str(Path(__file__).with_name("work.py"))
_WORKERS = 2

Command = list[str]
MPROF = ["mprof", "run", "--multiprocess", "--interval", "0.25", "--output", "mprof.dat"]
MEMRAY = ["memray", "run", "--follow-fork", "--quiet", "--output", "memray.bin"]

# For each tool, the command that starts `work.py`, and how `work.py` watches itself.
TOOLS: dict[str, tuple[Command, str]] = {
    "nothing": ([], "plain"),
    "`observe`": ([], "observe"),
    "psutil `memory_full_info` in a thread": ([], "psutil"),
    "`mprof run --multiprocess`": ([*MPROF, "python"], "plain"),
    "the same, `--backend psutil_pss`": ([*MPROF, "--backend", "psutil_pss", "python"], "plain"),
    "`memray run --follow-fork`": (MEMRAY, "plain"),
}


def once(tool: str, kind: str, seconds: float) -> float:
    """Run `work.py` under one tool for some seconds, and return the batches per second.

    `tool` is a key of TOOLS, and `kind` is a key of KINDS.
    """
    before, how = TOOLS[tool]
    bin_ = Path(sys.executable).parent
    with TemporaryDirectory(prefix="dltutor-benchmark-") as folder:
        program = [str(bin_ / before[0]), *before[1:]] if before else [sys.executable]
        program = [str(bin_ / word) if word == "python" else word for word in program]
        arguments = [WORK, kind, str(_WORKERS), str(seconds), f"{folder}/rate", how]
        subprocess.run(
            [*program, *arguments], cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL
        )
        return float(Path(folder, "rate").read_text())


def measure(quick: bool) -> Iterator[Table]:
    """Yield the table, with a row for each tool and kind of work."""
    rounds, seconds = (1, 0.3) if quick else (3, 2.0)
    rows = []
    for kind in ["cheap"] if quick else KINDS:
        variants: dict[str, Callable[[], float]] = {
            tool: partial(once, tool, kind, seconds) for tool in TOOLS
        }
        found = in_turn(variants, rounds)
        for tool, rates in found.items():
            rows.append(
                [KINDS[kind], tool, spread(rates, "{:.0f}"), ratio(rates, found["nothing"])]
            )
    names = [f"{name} {version(name)}" for name in ("psutil", "memory-profiler", "memray")]
    yield Table(
        "The same work under other tools",
        ["loader", "under", "batches/s", "ratio"],
        rows,
        f"{_WORKERS} workers, {rounds} rounds of {seconds:g} s, each in a new process. All tools "
        "sample four times a second, except memray, which hooks every allocation. `observe` reads "
        f"PSS and USS after the workers have started and at the end. {', '.join(names)}.",
    )


if __name__ == "__main__":
    benchmark("others", measure)
