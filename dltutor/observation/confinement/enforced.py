"""Define the record of the limits that `confine` enforced on a run."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Confinement:
    """The limits on a run in `confine`, and the evidence for them.

    Args:
        limits: A sentence about each limit, with its size and what enforced it, and another one
            about which processes are killed first, if `confine` arranged that.
        memory: The memory limit in bytes, or None without a limit.
        stand_in: Whether a watchdog replaced the OOM killer.
        oom_kills: How many processes the OOM killer killed, by the cgroup's count, or None without
            a cgroup.
        peak: The most memory in use at once, in bytes, by the cgroup's count, or None if unknown.
        kernel_log: The kernel log's lines about the kills, with W0 or main instead of the pid, or
            None without a cgroup or if we can't read the log.
        watchdog: The processes that the watchdog killed, such as "W0".
        from_outside: Whether `confine` observed main only from outside, because main was a script,
            died, or was killed. The Observation then doesn't count batches.
        exitcode: If `from_outside`, main's exit code, negative for a signal, or None if `confine`
            killed main at the deadline.
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
        """Return the rows that an Observation shows, without pids and killed processes' sizes."""
        rows = [("limits", "\n".join(self.limits))] if self.limits else []
        if self.oom_kills is not None:
            rows.append(("kernel", "\n".join(self._kernel())))
        if self.stand_in:
            killed = ", ".join(self.watchdog) or "no process"
            rows.append(("watchdog", f"sent SIGKILL to {killed}"))
        return rows

    def _kernel(self) -> list[str]:
        lines = [f"OOM kills, by the cgroup's own count: {self.oom_kills}"]
        if self.oom_kills and self.kernel_log is None:
            lines.append("this process may not read the kernel's log")
        # Drop the sizes after the process's name, because they differ from run to run.
        return lines + [re.sub(r"\).*", ")", line) for line in self.kernel_log or ()]
