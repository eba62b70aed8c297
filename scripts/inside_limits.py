"""The part of `binder_limits` that runs inside the limits: it starts the command, and looks.

It imports little, since what it takes counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import psutil

PERIOD: Final = 0.5
"""Seconds from one reading of PSS to the next: cells with eight workers take two or three."""


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: str,
    group: str | None,
    report: str,
    grace: float,
    measured: bool,
) -> NoReturn:
    """Run a command, write down what was seen, and exit as it did.

    Args:
        command: The program and its arguments.
        environment: All of its environment. What it starts is known by the DLTUTOR_HOME in it.
        folder: Where it runs.
        group: The cgroup it runs in, or None.
        report: The file for what was seen, in JSON: `seconds` that it took, `pss` and `shm` as the
            most bytes that its processes had together and that lay in /dev/shm, and `left` as the
            command lines of what outlived it.
        grace: Seconds for what it started to end.
        measured: Whether to read `pss`.
    """
    if group:
        Path(group, "cgroup.procs").write_text("0")
    home = environment["DLTUTOR_HOME"]
    before = shm = _in_shm()
    pss = 0
    began = due = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment)
    while process.poll() is None:
        shm = max(shm, _in_shm())
        if measured and time.monotonic() > due:
            pss = max(pss, sum(map(_pss, _processes_of(home))))
            due = time.monotonic() + PERIOD
        time.sleep(0.05)
    seconds = time.monotonic() - began
    found = {"seconds": seconds, "pss": pss, "shm": shm - before, "left": _left(home, grace)}
    Path(report).write_text(json.dumps(found))
    sys.exit(process.returncode)


def _left(home: str, grace: float) -> list[str]:
    until = time.monotonic() + grace
    while (left := _processes_of(home)) and time.monotonic() < until:
        time.sleep(0.2)
    return [" ".join(process.info["cmdline"]) for process in left]


def _processes_of(home: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["environ", "cmdline", "status"])
        if (process.info["environ"] or {}).get("DLTUTOR_HOME") == home
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def _pss(process: psutil.Process) -> int:
    try:
        pss: int = process.memory_full_info().pss
    except psutil.Error:  # it has ended
        return 0
    return pss


def _in_shm() -> int:
    try:
        shm = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return (shm.f_blocks - shm.f_bfree) * shm.f_frsize
