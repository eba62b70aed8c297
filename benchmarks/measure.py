"""Run a benchmark's variants in turn, summarize the numbers, and write the tables."""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

README = Path(__file__).with_name("README.md")
MB = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """One table of results.

    Args:
        title: The heading above the table.
        columns: The column heads, as Markdown.
        rows: Each row's cells, as Markdown.
        note: A paragraph below the table, on how to read the table (default: none).
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __str__(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"### {self.title}\n\n{table}\n" + (f"\n{self.note}\n" if self.note else "")


def in_turn(variants: dict[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run all variants in each round, in the order A B B A, so that a busy moment affects them all.

    Args:
        variants: The functions to run, by name.
        rounds: How many times to run each variant.

    Returns:
        What each variant returned, by name, with one value per round.
    """
    found: dict[str, list[T]] = {name: [] for name in variants}
    for number in range(rounds):
        for name, run in list(variants.items())[:: -1 if number % 2 else 1]:
            found[name].append(run())
    return found


def ratio(ours: Sequence[float], plain: Sequence[float]) -> str:
    """Format the median and the middle half of the rounds' ratios, `ours` divided by `plain`."""
    return spread([one / other for one, other in zip(ours, plain, strict=True)], "{:.3f}")


def added(ours: Sequence[float], plain: Sequence[float], form: str) -> str:
    """Format the median and the middle half of the rounds' differences, `ours` minus `plain`."""
    return spread([one - other for one, other in zip(ours, plain, strict=True)], form)


def spread(values: Sequence[float], form: str) -> str:
    """Format the median, and the range of the middle half of the values.

    `form` is the format of a number, such as "{:.2f}".
    """
    middle = form.format(statistics.median(values))
    if len(values) < 2:
        return middle
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle} ({form.format(low)} to {form.format(high)})"


def machine() -> str:
    """Describe this machine and the versions of its software, in two lines."""
    import torch

    import dltutor
    from dltutor.tables import size

    here = dltutor.machine()
    named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return (
        f"{here.cores:g} cores ({named[1] if named else platform.machine()}), {size(here.memory)}, "
        f"Linux {platform.release()}, {' '.join(platform.libc_ver())}.\n"
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"dltutor {dltutor.__version__}."
    )


def benchmark(name: str, measure: Callable[[bool], Iterable[Table]]) -> None:
    """Run one script's measurements, print the tables, and write them into README.md.

    With `--quick` on the command line, use small sizes, and don't write the tables.

    Args:
        name: The name of the markers in README.md between which the tables belong.
        measure: A function that yields the tables. Its argument says whether to use small sizes.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="use small sizes, and write nothing")
    quick = parser.parse_args().quick
    load = os.getloadavg()[0]
    began = time.monotonic()
    tables = []
    for table in measure(quick):
        print(table, flush=True)
        tables.append(str(table))
    taken = f"Load before the start: {load:.1f}. It took {time.monotonic() - began:.0f} s."
    print(taken, flush=True)
    if not quick:
        write(name, "\n".join([*tables, taken]))


def write(name: str, text: str) -> None:
    """Replace the Markdown between `<!-- begin NAME -->` and `<!-- end NAME -->` in README.md."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    before, _, rest = README.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{README.name} has no markers for {name!r}")
    README.write_text(f"{before}{begin}{text.strip()}\n{end}{after}")
