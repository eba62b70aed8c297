"""The limits of a run in `confine`: as they are asked for, and the Confinement that they made."""

from __future__ import annotations

import re
import resource
from dataclasses import dataclass
from typing import Final

from dltutor.observation.confinement.task import Report
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

    def sentences(self, report: Report) -> tuple[str, ...]:
        """Say for each limit how much it is and who enforced it."""
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


@dataclass(frozen=True)
class Confinement:
    """The limits of a run in `confine`, and the evidence of them.

    Args:
        limits: A sentence for each limit: how much, and enforced by whom.
        memory: The memory limit in bytes, or None.
        stand_in: Whether a watchdog stood in for the kernel's OOM killer.
        oom_kills: How many processes the kernel killed at the limit, by the cgroup's own
            count; None without a cgroup.
        peak: The most memory in use at once, in bytes, by the cgroup's own count; None where
            that is not known.
        kernel_log: The kernel's own lines about the kills, with W0 or main for the pid; None where
            they may not be read.
        watchdog: Whom the watchdog killed, such as "W0".
        from_outside: Whether the main process was seen from outside only: a script, or one that
            died or had to be killed. Then no batches are counted.
        exitcode: Its exit code if so, negative for a signal; None if it was killed at its deadline.
    """

    limits: tuple[str, ...] = ()
    memory: int | None = None
    stand_in: bool = False
    oom_kills: int | None = None
    peak: int | None = None
    kernel_log: tuple[str, ...] | None = None
    watchdog: tuple[str, ...] = ()
    from_outside: bool = False
    exitcode: int | None = None

    def rows(self) -> list[tuple[str, str]]:
        """The rows that an Observation shows: the same on every run."""
        rows = [("limits", "\n".join(self.limits))] if self.limits else []
        if self.oom_kills is not None:
            rows.append(("kernel", "\n".join(self._kernel())))
        if self.stand_in:
            rows.append(("watchdog", f"sent SIGKILL to {', '.join(self.watchdog) or 'nobody'}"))
        return rows

    def _kernel(self) -> list[str]:
        lines = [f"OOM kills, by the cgroup's own count: {self.oom_kills}"]
        if self.oom_kills and self.kernel_log is None:
            lines.append("its log may not be read here")
        # What follows the name are sizes, which differ from run to run.
        return lines + [re.sub(r"\).*", ")", line) for line in self.kernel_log or ()]


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
