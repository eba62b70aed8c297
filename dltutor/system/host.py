"""machine(): what this machine allows a DataLoader."""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import torch

from dltutor.system.process_memory import Proc, shared_memory
from dltutor.tables import Table

_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """What a loader on this machine can use. Sizes are in bytes.

    Args:
        cores: Cores that this process may run on.
        cpu_quota: Cores' worth of time that the cgroup grants, or None without a quota.
        memory: The machine's memory.
        memory_limit: The cgroup's limit, or None.
        shm: The size of `/dev/shm`, or None where there is none.
        open_files: How many descriptors a process may have open, or None without a limit.
        start_method: multiprocessing's default start method.
        c_library: Such as "glibc 2.36"; empty if not known.
        system: Such as "Linux".
        python: Its version.
        torch: Its version.
        root: Whether this process runs as root.
    """

    cores: int
    cpu_quota: float | None
    memory: int
    memory_limit: int | None
    shm: int | None
    open_files: int | None
    start_method: str
    c_library: str
    system: str
    python: str
    torch: str
    root: bool

    def story(self) -> Table:
        """The machine in a few rows."""
        quota = f", of which the cgroup grants {self.cpu_quota:g}" if self.cpu_quota else ""
        limit = f", limited to {size(self.memory_limit)}" if self.memory_limit else ""
        return Table(
            "This machine",
            (
                ("cores", f"{self.cores}{quota}"),
                ("memory", f"{size(self.memory)}{limit}"),
                ("/dev/shm", size(self.shm) if self.shm is not None else "none"),
                ("open files", f"{self.open_files or 'no limit'} for each process"),
                ("start method", f"{self.start_method}, unless the loader says otherwise"),
                ("system", ", ".join(filter(None, (self.system, self.c_library)))),
                ("Python, torch", f"{self.python}, {self.torch}"),
            ),
        )

    def __str__(self) -> str:
        return str(self.story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()


def machine() -> Machine:
    """Measure what this machine allows, now."""
    memory = psutil.virtual_memory().total
    name, version = platform.libc_ver()
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _all_cores(),
        cpu_quota=_cpu_quota(),
        memory=memory,
        memory_limit=_memory_limit(memory),
        shm=shared_memory()[1],
        open_files=None if open_files == resource.RLIM_INFINITY else open_files,
        # Asking multiprocessing itself would fix its choice for the rest of the process.
        start_method=multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0],
        c_library=f"{name} {version}".strip(),
        system=platform.system(),
        python=platform.python_version(),
        torch=torch.__version__.partition("+")[0],
        root=os.geteuid() == 0,
    )


def _all_cores() -> int:
    return os.cpu_count() or 1


def _memory_limit(total: int) -> int | None:
    limit = Proc().cgroup(os.getpid())[1]
    return limit if limit is not None and limit < total else None


def _cpu_quota() -> float | None:
    quota, _, period = _read("cpu.max").partition(" ")
    if not quota:
        quota, period = _read("cpu/cpu.cfs_quota_us"), _read("cpu/cpu.cfs_period_us")
    if not (quota.isdigit() and period.isdigit()):  # "max", or -1: no quota
        return None
    return int(quota) / int(period)


def _read(file: str) -> str:
    try:
        return (_CGROUP / file).read_text().strip()
    except OSError:
        return ""


def size(count: float) -> str:
    """Bytes as people write them: "64 MB", "1.5 GB" (powers of 1024)."""
    if not math.isfinite(count):
        return "unlimited"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 10 or count == int(count) else f"{count:.1f} {unit}"
