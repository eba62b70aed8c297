"""Define the parts of an Observation: how the run ended, lines of code, workers, and limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dltutor.observation import texts

End = Literal["finished", "raised", "worker died", "main died", "hung"]


@dataclass(frozen=True)
class Frame:
    """One line in a traceback or a stack.

    Args:
        file: The file, with a shortened path, or "your cell" for code in a notebook.
        line: The line number.
        function: The function's name.
        code: The source line, or "" if it couldn't be read.
    """

    file: str
    line: int
    function: str
    code: str = ""

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}, in {self.function}"
        return f"{place}: {self.code}" if self.code else place


@dataclass(frozen=True)
class Worker:
    """The state of one worker process at the end of a run.

    Args:
        number: The worker's id in torch, such as 0 for W0.
        exitcode: The worker's exit code, negative for a signal, or None if it was still running.
        stack: The learner's lines in the worker's stack, innermost call first, or the line in
            torch's worker loop if there are none. None means that the worker wasn't asked for
            its stack or didn't answer.
        loader: If a wrapper has several loaders, the loader's key in a dict, or a name such as
            "loader 2". Otherwise "".
    """

    number: int
    exitcode: int | None
    stack: tuple[Frame, ...] | None = None
    loader: str = ""

    @property
    def name(self) -> str:
        """The worker's name, such as "W0", or "W0 of images" if there are several loaders."""
        return f"W{self.number} of {self.loader}" if self.loader else f"W{self.number}"

    @property
    def signal(self) -> str | None:
        """The name of the signal that killed the worker, such as SIGKILL, or None if none did."""
        return texts.signal_name(self.exitcode)

    @property
    def fate(self) -> str:
        """How the worker ended, such as "ended with exit code 1", or "still running"."""
        return texts.fate(self.exitcode)

    def __str__(self) -> str:
        return f"{self.name} {self.fate}"


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
        """Return the table rows about the limits, without the sizes of killed processes."""
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
