"""A pytest plugin: what the tests took, for each lesson, notebook and file, at the end of a run.

CPU seconds are those of the test's process, of all children that have ended, and of the fork
server, whose workers are children of its own.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import forkserver
from typing import Any

import psutil
import pytest

PROPERTY = "took"

START: pytest.StashKey[tuple[float, float]] = pytest.StashKey()

SHOWN = 0.01
"""The part of all CPU seconds that gives a file a row of its own. Lessons have theirs always."""


def spent() -> tuple[float, float]:
    """The wall clock, and the CPU seconds spent by this process and its descendants so far."""
    cpu = sum(os.times()[:4])
    server = getattr(forkserver._forkserver, "_forkserver_pid", None)
    with suppress(psutil.Error):
        cpu += sum(psutil.Process(server).cpu_times()[:4]) if server else 0
    return time.monotonic(), cpu


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[START] = spent()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    report = yield
    if call.when == "teardown":
        took = [round(now - then, 3) for now, then in zip(spent(), item.stash[START], strict=True)]
        report.user_properties.append((PROPERTY, took))
    return report


def group(nodeid: str) -> str:
    """What a test is about: the notebooks of a lesson, its checks, or what its file is about."""
    path, _, test = nodeid.partition("::")
    file = path.rpartition("/")[2]
    if file == "test_notebooks.py" and (found := re.search(r"[\[-](\d\d)-", test)):
        return f"lesson {found[1]}, notebooks"
    if found := re.search(r"^test_lesson_(\d\d)\.py", file) or re.search(
        r"\[(?:[^\]]*-)?(\d\d)\.[a-z]", test
    ):
        return f"lesson {found[1]}, checks"
    return file


class Costs:
    """Adds up what the reports say; where tests run in several processes, in their controller."""

    def __init__(self) -> None:
        self.by_group: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, took in report.user_properties:
            if name == PROPERTY:
                row = self.by_group[group(report.nodeid)]
                for place, value in enumerate([1, *took]):
                    row[place] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.by_group:
            return
        everything = summed(self.by_group.values())
        rows, others = [], []
        for name, took in sorted(self.by_group.items()):
            large = name.startswith("lesson") or took[-1] >= SHOWN * everything[-1]
            (rows if large else others).append((name, took))
        if others:
            rows.append((f"{len(others)} other files", summed(took for _, took in others)))
        terminalreporter.section("what it took")
        terminalreporter.write_line(f"{'tests':>6} {'seconds':>8} {'CPU':>8}")
        for name, (tests, seconds, cpu) in [*rows, ("all", everything)]:
            terminalreporter.write_line(f"{tests:6.0f} {seconds:8.1f} {cpu:8.1f}  {name}")


def summed(rows: Iterable[list[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs())
