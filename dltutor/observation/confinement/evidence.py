"""The Confinement: which limits a run was under, by whom, and what evidence that left."""

from __future__ import annotations

import re
from dataclasses import dataclass


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
