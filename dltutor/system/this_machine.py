"""Report the resources, limits, and versions on this machine that matter to a DataLoader."""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import sys
from dataclasses import dataclass
from importlib import metadata

from dltutor.system import cgroup_files
from dltutor.system.process_memory import reader, shared_memory
from dltutor.tables import Table, Told, size


@dataclass(frozen=True, repr=False)
class Machine(Told):
    """The resources, limits, and versions that matter to a loader here. Sizes are in bytes.

    Args:
        cores: How many cores this process may run on.
        cpu_quota: How many cores' worth of time the cgroup grants, or None without a quota.
        memory: The machine's memory, or 0 if unknown.
        memory_limit: The cgroup's memory limit, or None if there's none below `memory`.
        shm: The size of `/dev/shm`, or None without a `/dev/shm`.
        open_files: How many descriptors a process may have open, or None without a limit.
        start_method: The start method of a loader that doesn't choose one.
        c_library: The C library, such as "glibc 2.36", or "" if unknown.
        system: The operating system, such as "Linux".
        python: Python's version, such as "3.12.4".
        torch: torch's version, or "none" if torch isn't installed.
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


def machine() -> Machine:
    """Return this machine's resources, limits, and versions.

    Memory and `/dev/shm` are total sizes, not what's free now.
    """
    memory = reader().total() or 0
    limit = cgroup_files.memory()[1]
    name, version = platform.libc_ver()
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Machine(
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        cpu_quota=cgroup_files.cpu_quota(),
        memory=memory,
        memory_limit=limit if limit is not None and limit < memory else None,
        shm=shared_memory()[1],
        open_files=None if open_files == resource.RLIM_INFINITY else open_files,
        start_method=default_start_method(),
        c_library=f"{name} {version}".strip(),
        system=platform.system(),
        python=platform.python_version(),
        torch=_torch_version(),
        root=os.geteuid() == 0,
    )


def default_start_method() -> str:
    """Return the start method that this process has set, or Python's default if it has set none.

    This call doesn't fix the start method, so the process can still set another one.
    """
    # Without allow_none, `get_start_method()` would fix Python's default.
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or multiprocessing.get_all_start_methods()[0]


def _torch_version() -> str:
    # Don't import torch for its version, because importing torch is slow.
    try:
        version = getattr(sys.modules.get("torch"), "__version__", None) or metadata.version(
            "torch"
        )
    except metadata.PackageNotFoundError:
        return "none"
    return str(version).partition("+")[0]
