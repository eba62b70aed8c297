"""Start a command and measure it for `binder_limits`, inside the limits if there are any.

This module imports little, because its own memory counts against the limits.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

MB: Final = 1 << 20

PERIOD: Final = 0.5
"""Seconds between two readings of PSS, short enough for cells that run for only 2 or 3 s."""


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
    """Run a command, and end all processes that it leaves behind.

    Args:
        command: The program and its arguments.
        environment: The whole environment, whose DLTUTOR_HOME identifies the command's processes.
        folder: The command's working folder.
        group: The cgroup to move into before starting the command. If None, don't change cgroups.
        output: The file for the command's stdout and stderr. If None, the command inherits ours.
        deadline: Seconds until `watch` ends the command.
        grace: The most seconds for the command's processes to exit after the command.
        measured: Whether to read PSS. If not, `pss` is 0.

    Returns:
        A dict with the command's exit `code` (None if `watch` ended the command at the deadline),
        the `seconds` that it took, the most MB of `pss` that all its processes had together, the
        most MB by which /dev/shm grew (`shm`), and the command lines of the processes that outlived
        the command (`left`).
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
                # Spare the resource tracker, which cleans up /dev/shm after the others exit.
                if not any("resource_tracker" in word for word in each.info["cmdline"]):
                    each.kill()
            psutil.wait_procs(rest, timeout=1)
        process.wait()
    memory = {"pss": pss / MB, "shm": (shm - before) / MB}
    return {"code": code, "seconds": seconds, "left": left} | memory


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
    except psutil.Error:  # the process has ended
        return 0
    return pss


def _in_shm() -> int:
    try:
        shm = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return (shm.f_blocks - shm.f_bfree) * shm.f_frsize
