"""The part of `binder_limits` that starts the command and looks; within limits it runs there.

It imports little, since what it takes counts.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

PERIOD: Final = 0.5
"""Seconds from one reading of PSS to the next: cells with eight workers take two or three."""


def watch(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: str,
    group: str | None,
    output: str | None,
    deadline: float,
    grace: float,
    measured: bool,
) -> dict[str, Any]:
    """Run a command, and end whatever it leaves.

    Args:
        command: The program and its arguments.
        environment: All of its environment. What it starts is known by the DLTUTOR_HOME in it.
        folder: Where it runs.
        group: The cgroup that this process and the command run in, or None.
        output: The file for what it writes to both descriptors; None for those of this process.
        deadline: Seconds until it is ended.
        grace: Seconds for what it started to end.
        measured: Whether to read `pss`.

    Returns:
        The command's exit `code`, None if the deadline ended it; the `seconds` that it took; `pss`
        and `shm`, the most bytes that its processes had together and that lay in /dev/shm; `left`,
        the command lines of what outlived it.
    """
    if group:
        Path(group, "cgroup.procs").write_text("0")
    home = environment["DLTUTOR_HOME"]
    before = shm = _in_shm()
    pss = 0
    began = due = time.monotonic()
    file = open(output, "wb") if output else None  # noqa: SIM115
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
    try:
        while (code := process.poll()) is None and time.monotonic() < began + deadline:
            shm = max(shm, _in_shm())
            if measured and time.monotonic() > due:
                pss = max(pss, sum(map(_pss, _processes_of(home))))
                due = time.monotonic() + PERIOD
            time.sleep(0.05)
        seconds = time.monotonic() - began
        left = [] if code is None else _left(home, grace)
    finally:
        if file:
            file.close()
        while rest := _processes_of(home):
            for each in rest:
                # A resource tracker ends by itself when the others are gone, and tidies /dev/shm.
                if not any("resource_tracker" in word for word in each.info["cmdline"]):
                    each.kill()
            psutil.wait_procs(rest, timeout=1)
        process.wait()
    return {"code": code, "seconds": seconds, "pss": pss, "shm": shm - before, "left": left}


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
