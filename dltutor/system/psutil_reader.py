"""Read the figures of processes and the machine from psutil, for systems without a `/proc`."""

from __future__ import annotations

from dltutor.system.process_memory import DENIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dltutor.system.process_memory import Figures


class Psutil:
    """A reader with the methods of `process_memory.Proc`, but no PSS, and often no page faults."""

    source = "psutil"

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._errors = (psutil.Error, OSError, RuntimeError)

    def descendants(self, pids: list[int]) -> set[int]:
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
        try:
            process = self._psutil.Process(pid)
            return process.create_time(), process.ppid()
        except self._errors:
            return None

    def is_alive(self, pid: int) -> bool:
        return self.process(pid) is not None

    def has_stopped(self, pid: int) -> bool:
        """Return True, because psutil doesn't report whether each thread has stopped."""
        return True

    def command(self, pid: int) -> bytes:
        try:
            return " ".join(self._psutil.Process(pid).cmdline()).encode(errors="replace")
        except self._errors:
            return b""

    def memory(self, pid: int) -> Figures | None:
        try:
            return {**DENIED, "uss": self._psutil.Process(pid).memory_full_info().uss}
        except self._psutil.AccessDenied:
            return DENIED
        except self._errors:
            return None

    def available(self) -> int | None:
        return self._machine("available")

    def total(self) -> int | None:
        return self._machine("total")

    def cgroup(self, pid: int) -> tuple[str, int | None]:
        """Return no cgroup, because only Linux has cgroups."""
        return "", None

    def _machine(self, name: str) -> int | None:
        try:
            return int(getattr(self._psutil.virtual_memory(), name))
        except self._errors:
            return None
