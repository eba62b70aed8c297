"""The limits of a run in `confine`, as they are asked for, and in words."""

from __future__ import annotations

import re
import resource
from dataclasses import dataclass
from typing import Final

from dltutor.observation.confinement.task import FIRST_CHOICE, Report
from dltutor.tables import size

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kKMGT]?)(?:i?B)?")
_POWERS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}  # of 1024
_FEWEST_FILES: Final = 16  # the interpreter and torch need that many to start


@dataclass(frozen=True)
class ResourceLimits:
    """Limits as they are asked for, each None if there is to be none.

    Args:
        memory: Bytes.
        shm: Bytes.
        open_files: Descriptors for each process.
    """

    memory: int | None
    shm: int | None
    open_files: int | None

    @classmethod
    def read(cls, memory: object, shm: object, open_files: object) -> ResourceLimits:
        """Read limits as people write them.

        Raises:
            ValueError: One is not what it should be.
        """
        return cls(_bytes("memory", memory), _bytes("shm", shm), _files(open_files))

    def sentences(self, report: Report, *, workers: bool) -> tuple[str, ...]:
        """Say for each limit how much it is and who enforced it, and who was to be killed first.

        Args:
            report: The supervisor's.
            workers: Whether there were workers to be put forward.
        """
        found = []
        if self.memory is not None:
            how = f"enforced by the kernel, with a cgroup (version {report.cgroup})"
            if report.cgroup is None:
                how = (
                    f"not by the kernel, since no cgroup can be made here "
                    f"({report.no_cgroup}); a watchdog that sends the same SIGKILL stood in for "
                    f"the OOM killer"
                )
            found.append(f"memory {size(self.memory)}: {how}")
            if workers and report.cgroup is None:
                found.append("workers first: the watchdog kills the largest of them before main")
            elif workers:
                found.append(
                    f"workers first: +{FIRST_CHOICE} on each worker's oom_score_adj, as if the "
                    "whole limit were its own"
                )
        if self.shm is not None:
            found.append(f"/dev/shm {size(self.shm)}: one of its own, in a mount namespace")
        if self.open_files is not None:
            how = "enforced by the kernel, with RLIMIT_NOFILE"
            found.append(f"open files {self.open_files} for each process: {how}")
        return tuple(found)

    def refusal(self, limit: str, why: str) -> str:
        """Say which limit is not permitted, and why."""
        if limit == "shm" and self.shm is not None:
            return (
                f"shm: a /dev/shm of {size(self.shm)} for the child alone is not permitted here "
                f"({why}). It needs root with CAP_SYS_ADMIN, or user namespaces; most containers "
                f"have neither"
            )
        if limit == "open_files":
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            return f"open_files: {self.open_files} are not permitted here ({why}); at most {most}"
        return f"the child interpreter could not be started: {why}"


def _bytes(name: str, value: object) -> int | None:
    if value is None:
        return None
    count = 0
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    elif isinstance(value, str) and (found := _SIZE.fullmatch(value.strip())):
        count = int(float(found[1]) * 1024 ** _POWERS[found[2]])
    if not 1 << 20 <= count < 1 << 60:
        accepted = 'bytes, as a number or as text such as "300M" or "1G", 1 MB or more'
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return count


def _files(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < _FEWEST_FILES:
        accepted = f"a whole number of {_FEWEST_FILES} or more"
        raise ValueError(f"open_files must be {accepted}, got {value!r}")
    return value
