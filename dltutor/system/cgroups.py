"""Make, enter, and remove a cgroup (control group) with a memory limit, such as a container has.

Linux has two versions of cgroups, and this module uses the version that counts memory on this
machine. On a machine with version 1, `scripts/cgroup_v2.py` tests version 2 in a virtual machine.
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

_PREFIX: Final = "dltutor-"  # a group's name is this prefix and the pid of the group's maker
_PATIENCE: Final = 5.0  # seconds to wait for killed processes to leave a group


@dataclass(frozen=True)
class Group:
    """A cgroup that dltutor made to limit the memory of the processes inside it.

    Args:
        folder: The group's folder in the mounted cgroup file system.
        version: The version of cgroups that the group belongs to, 1 or 2.
    """

    folder: Path
    version: int

    def enter(self) -> None:
        """Move this process, and all children that it starts afterward, into the group."""
        (self.folder / "cgroup.procs").write_text("0")

    @property
    def kills(self) -> int | None:
        """How many processes the OOM killer has killed in the group, or None if unknown."""
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        return cgroup_files.counts(f"{self.folder / file}").get("oom_kill")

    @property
    def peak(self) -> int | None:
        """The most memory that the group has used, in bytes, or None if Linux doesn't report it.

        How often the group reached its limit would say more, but memory.failcnt stays 0 even after
        the OOM killer has run (Linux 6.18).
        """
        file = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        return cgroup_files.number(f"{self.folder / file}")

    def remove(self) -> None:
        """Kill all processes in the group and in the groups inside it, then remove the groups.

        Give up after 5 s.
        """
        until = time.monotonic() + _PATIENCE
        while self.folder.exists():
            for folder, _, _ in os.walk(self.folder, topdown=False):
                with suppress(OSError):  # the group is busy until the killed processes end
                    for pid in Path(folder, "cgroup.procs").read_text().split():
                        with suppress(OSError):
                            os.kill(int(pid), signal.SIGKILL)
                    os.rmdir(folder)
            if time.monotonic() > until:
                return
            time.sleep(0.005)


def make(limit: int, *, proc: str = "/proc") -> Group:
    """Make a group with a memory limit (in bytes) and no swap, named after this process's pid.

    In version 1, the new group is inside this process's group. In version 2, a group with
    processes can't contain groups with a limit, so the new group is inside the nearest group
    around this process that delegates the memory controller and permits a new group.

    Raises:
        OSError: No memory cgroup is mounted, no group around this process delegates its memory
            controller (version 2), or the system doesn't permit such a group.
    """
    why = OSError(
        "no cgroup around this process delegates its memory controller"
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


def remove_abandoned() -> None:
    """Remove the groups that processes made and left behind when they ended.

    Call this before `make`, because this function also removes a group with this process's pid.
    """
    for parent, version in _parents("/proc"):
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = folder.name.removeprefix(_PREFIX)
            # This process has made no group yet, so a group with its pid is from an older process.
            if owner.isdigit() and (int(owner) == os.getpid() or not is_alive(int(owner))):
                Group(folder, version).remove()


def _limit(group: Group, limit: int) -> None:
    first, *others = {
        1: ("memory.limit_in_bytes", "memory.swappiness", "memory.oom_control"),
        2: ("memory.max", "memory.swap.max", "memory.oom.group"),
    }[group.version]
    (group.folder / first).write_text(f"{limit}")
    # A 0 turns off swap and has the OOM killer kill a single process, instead of pausing the
    # processes (version 1) or killing the whole group (version 2).
    for file in filter(Path.exists, map(group.folder.joinpath, others)):
        file.write_text("0")
    # If Linux accounts for swap, version 1 has a second limit, on memory and swap together.
    accounted = group.folder / "memory.memsw.limit_in_bytes"
    if accounted.exists():
        accounted.write_text(f"{limit}")


def _parents(proc: str) -> list[tuple[Path, int]]:
    """Return the groups in which `make` can put its group, innermost first, with their versions."""
    found = []
    for folder, version in cgroup_files.groups("memory", proc=proc):
        if version == 1:
            return [(Path(folder), version)]  # the innermost group comes first
        with suppress(OSError):
            if "memory" in Path(folder, "cgroup.subtree_control").read_text().split():
                found.append((Path(folder), version))
    return found
