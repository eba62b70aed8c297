"""A cgroup (control group) with a memory limit: what really kills a worker in a container.

Version 1 is tested on a real kernel. Version 2 is untested: only the files that are written and
read are, not the kernel's answer to them.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dltutor.system.process_memory import Proc

_PREFIX: Final = "dltutor-"  # then the pid of the owner
_PATIENCE: Final = 5.0  # seconds for killed processes to leave a group
_ESCAPED: Final = re.compile(r"\\(\d{3})")


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
        return _count(self.folder / file, "oom_kill")

    @property
    def peak(self) -> int | None:
        """The most memory in use in it so far, in bytes; None where the kernel does not tell.

        A count of how often the limit was met would say more, but memory.failcnt stays 0 even
        where the OOM killer was called (Linux 6.18).
        """
        file = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        return _count(self.folder / file, "")

    def remove(self) -> None:
        """Kill what is left in the group, and in groups within it, and remove them."""
        until = time.monotonic() + _PATIENCE
        while self.folder.exists():
            for folder, _, _ in os.walk(self.folder, topdown=False):
                with suppress(OSError):  # busy: a killed process takes its time to be gone
                    _kill_all(Path(folder))
                    os.rmdir(folder)
            if time.monotonic() > until:
                return
            time.sleep(0.005)


def make(limit: int, *, root: str = "/") -> Group:
    """Make a group with a memory limit, and without swap, named after this process.

    Version 1: within the group of this process. Version 2: within the nearest group around it
    that hands the memory controller down; there, groups with processes have no groups within.

    Args:
        limit: Bytes.
        root: The root of the file system.

    Raises:
        OSError: The system does not permit it.
    """
    why = OSError("no memory cgroup is mounted")
    for parent, version in _parents(Path(root)):
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


def remove_abandoned(*, root: str = "/") -> None:
    """Remove the groups whose owner was killed before it could; call it before `make`."""
    for parent, version in _parents(Path(root)):
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = folder.name.removeprefix(_PREFIX)
            if owner.isdigit() and not _owns(int(owner)):
                Group(folder, version).remove()


def _owns(pid: int) -> bool:
    # A group that has our own pid before we made one is that of an owner long gone.
    return pid != os.getpid() and Proc().process(pid) is not None


def _limit(group: Group, limit: int) -> None:
    folder = group.folder
    if group.version == 2:
        (folder / "memory.max").write_text(f"{limit}")
        _set(folder / "memory.swap.max", 0)
        _set(folder / "memory.oom.group", 0)  # one process is killed, not all
        return
    (folder / "memory.limit_in_bytes").write_text(f"{limit}")
    _set(folder / "memory.memsw.limit_in_bytes", limit)  # only where swap is accounted
    _set(folder / "memory.swappiness", 0)
    _set(folder / "memory.oom_control", 0)  # kill, do not wait


def _set(file: Path, value: int) -> None:
    if file.exists():
        file.write_text(f"{value}")


def _parents(root: Path) -> list[tuple[Path, int]]:
    """The groups in which a group with a memory limit may be made, with their version."""
    own = _own_groups(root)
    if folder := own.get("memory"):
        return [(folder, 1)]
    if folder := own.get(""):
        return [(each, 2) for each in (folder, *folder.parents) if _hands_memory_down(each)]
    return []


def _own_groups(root: Path) -> dict[str, Path]:
    # Controller -> folder; version 2 has one hierarchy for all, called "" here.
    try:
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return {}
    mounted: dict[str, tuple[str, str]] = {}
    for line in mounts:
        left, _, right = line.partition(" - ")
        inside, point = (_ESCAPED.sub(_unescape, word) for word in left.split()[3:5])
        kind, _, options = right.split(" ", 2)
        names = options.split(",") if kind == "cgroup" else [""] if kind == "cgroup2" else []
        mounted.update((name, (inside, point)) for name in names)
    found = {}
    for line in groups:
        _, controllers, path = line.split(":", 2)
        for name in set(controllers.split(",")) & mounted.keys():
            inside, point = mounted[name]
            # In a container the mount may begin at the container's own group.
            found[name] = root / point.lstrip("/") / os.path.relpath(path, inside)
    return found


def _hands_memory_down(folder: Path) -> bool:
    try:
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _kill_all(folder: Path) -> None:
    for pid in (folder / "cgroup.procs").read_text().split():
        with suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)


def _count(file: Path, key: str) -> int | None:
    # Lines such as "oom_kill 1", or a number alone.
    try:
        lines = [line.rpartition(" ") for line in file.read_text().splitlines()]
    except OSError:
        return None
    return next((int(value) for name, _, value in lines if name == key), None)


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
