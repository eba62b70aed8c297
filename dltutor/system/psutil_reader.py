"""The figures of processes where there is no `/proc`, from psutil, which is imported only there."""

from __future__ import annotations

from dltutor.system.process_memory import DENIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dltutor.system.process_memory import Figures


class Psutil:
    """What psutil knows where there is no `/proc`: no PSS, and faults only on some systems."""

    source = "psutil"

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._errors = (psutil.Error, OSError, RuntimeError)

    def descendants(self, pids: list[int]) -> set[int]:
        """The children of these processes, their children, and so on."""
        found: set[int] = set()
        for pid in pids:
            if pid not in found:
                try:
                    family = self._psutil.Process(pid).children(recursive=True)
                except self._errors:
                    continue
                found.update(child.pid for child in family)
        return found

    def process(self, pid: int) -> tuple[float, Figures] | None:
        """When a process started, to know it again, and its figures; None if it is gone."""
        try:
            process = self._psutil.Process(pid)
            with process.oneshot():
                if process.status() == self._psutil.STATUS_ZOMBIE:
                    return None
                memory = process.memory_info()
                faults = getattr(memory, "pfaults", None)
                cheap = {
                    "rss": memory.rss,
                    "faults": faults,
                    "threads": process.num_threads(),
                    "fds": process.num_fds(),
                }
                return process.create_time(), cheap
        except self._errors:
            return None

    def birth(self, pid: int) -> tuple[float, int] | None:
        """When a process started, and its parent's pid; None if it is gone. Zombies have both."""
        try:
            process = self._psutil.Process(pid)
            return process.create_time(), process.ppid()
        except self._errors:
            return None

    def is_alive(self, pid: int) -> bool:
        """Whether there is such a process, and it is no zombie."""
        return self.process(pid) is not None

    def has_stopped(self, pid: int) -> bool:
        """Whether it stands still after a SIGSTOP. psutil doesn't tell for each thread, so: yes."""
        return True

    def command(self, pid: int) -> bytes:
        """The command line of a process, however its words are parted; empty if it is gone."""
        try:
            return " ".join(self._psutil.Process(pid).cmdline()).encode(errors="replace")
        except self._errors:
            return b""

    def memory(self, pid: int) -> Figures | None:
        """USS as `Proc.memory` has it; DENIED where it is denied; None if the process is gone."""
        try:
            return {**DENIED, "uss": self._psutil.Process(pid).memory_full_info().uss}
        except self._psutil.AccessDenied:
            return DENIED
        except self._errors:
            return None

    def available(self) -> int | None:
        """What the machine can still give without swapping."""
        return self._machine("available")

    def total(self) -> int | None:
        """The machine's memory."""
        return self._machine("total")

    def cgroup(self, pid: int) -> tuple[str, int | None]:
        """Nothing: only Linux has cgroups."""
        return "", None

    def _machine(self, name: str) -> int | None:
        try:
            return int(getattr(self._psutil.virtual_memory(), name))
        except self._errors:
            return None
