"""Making a cgroup (control group) with a memory limit: what really kills a worker in a container.

Both versions are tested on a real kernel: `scripts/cgroup_v2.py` boots one for version 2.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dltutor.system import cgroup_files
from dltutor.system.processes import is_alive

_PREFIX: Final = "dltutor-"  # then the pid of the owner
_PATIENCE: Final = 5.0  # seconds for killed processes to leave a group


@dataclass(frozen=True)
class Group:
    """A cgroup of ours.

    Args:
        folder: Where it is in the file system.
        version: 1 or 2.
    """

    folder: Path
    version: int

    def enter(self) -> None:
        """Move this process, which has one thread, into the group; its children are born there."""
        (self.folder / "cgroup.procs").write_text("0")

    @property
    def kills(self) -> int | None:
        """How many processes the OOM killer has killed in it; None where it is not counted."""
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        return cgroup_files.counts(f"{self.folder / file}").get("oom_kill")

    @property
    def peak(self) -> int | None:
        """The most memory in use in it so far, in bytes; None where the kernel does not tell.

        How often the limit was reached would say more, but memory.failcnt stays 0 even after the
        OOM killer was called (Linux 6.18).
        """
        file = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        return cgroup_files.number(f"{self.folder / file}")

    def remove(self) -> None:
        """Kill what is left in the group, and in groups within it, and remove them."""
        until = time.monotonic() + _PATIENCE
        while self.folder.exists():
            for folder, _, _ in os.walk(self.folder, topdown=False):
                with suppress(OSError):  # busy: a killed process takes its time to be gone
                    for pid in Path(folder, "cgroup.procs").read_text().split():
                        with suppress(OSError):
                            os.kill(int(pid), signal.SIGKILL)
                    os.rmdir(folder)
            if time.monotonic() > until:
                return
            time.sleep(0.005)


def make(limit: int, *, proc: str = "/proc") -> Group:
    """Make a group with a memory limit, and without swap, named after this process.

    Version 1: within the group of this process. Version 2: within the nearest group around it
    that hands the memory controller down; there, groups with processes have no groups within.

    Args:
        limit: Bytes.
        proc: Where `/proc` is.

    Raises:
        OSError: The system does not permit it.
    """
    why = OSError(
        "no cgroup around this process hands its memory controller down"
        if cgroup_files.groups("memory", proc=proc)
        else "no memory cgroup is mounted"
    )
    for parent, version in _parents(proc):
        group = Group(parent / f"{_PREFIX}{os.getpid()}", version)
        try:
            group.folder.mkdir()
        except OSError as error:
            why = error
            continue
        try:
            _limit(group, limit)
        except BaseException:
            group.remove()
            raise
        return group
    raise why


def remove_abandoned(*, proc: str = "/proc") -> None:
    """Remove the groups whose owner was killed before it could; call it before `make`."""
    for parent, version in _parents(proc):
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = folder.name.removeprefix(_PREFIX)
            # One with our own pid, before we made one, is that of an owner long gone.
            if owner.isdigit() and (int(owner) == os.getpid() or not is_alive(int(owner))):
                Group(folder, version).remove()


def _limit(group: Group, limit: int) -> None:
    first, *others = {
        1: ("memory.limit_in_bytes", "memory.swappiness", "memory.oom_control"),
        2: ("memory.max", "memory.swap.max", "memory.oom.group"),
    }[group.version]
    (group.folder / first).write_text(f"{limit}")
    # No swap, and one process is killed: not all of them, and none is made to wait.
    for file in filter(Path.exists, map(group.folder.joinpath, others)):
        file.write_text("0")
    accounted = group.folder / "memory.memsw.limit_in_bytes"  # version 1, where swap is accounted
    if accounted.exists():
        accounted.write_text(f"{limit}")


def _parents(proc: str) -> list[tuple[Path, int]]:
    """The groups in which a group with a memory limit may be made, with their version."""
    found = []
    for folder, version in cgroup_files.groups("memory", proc=proc):
        if version == 1:
            return [(Path(folder), version)]  # the innermost comes first
        with suppress(OSError):
            if "memory" in Path(folder, "cgroup.subtree_control").read_text().split():
                found.append((Path(folder), version))
    return found
