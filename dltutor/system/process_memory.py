"""The figures of a process and of the machine, from `/proc` or, where there is none, from psutil.

The helper program of `sampler.py` loads this file on its own, so it knows the standard library
only. All sizes are in bytes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost the helper as much as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable

    Figures = tuple[int | None, ...]

# What is told of a process, in this order: the first four in every sample, the rest in full ones.
CHEAP = ("rss", "faults", "threads", "fds")
FULL = ("uss", "pss", "pss_shm")
DENIED = (None, None, None)

_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63


class Proc:
    """Figures from Linux's `/proc`.

    Args:
        root: Where it is mounted.
        groups: Where the cgroups are mounted.
    """

    source = "proc"

    def __init__(self, root: str = "/proc", groups: str = "/sys/fs/cgroup") -> None:
        self.root = root
        self.groups = groups
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._rolls_up = os.path.exists(f"{root}/self/smaps_rollup")
        self._lists_children = self._read(f"self/task/{os.getpid()}/children") is not None

    def descendants(self, pids: list[int]) -> set[int]:
        """The children of these processes, their children, and so on."""
        children = self._listed_children if self._lists_children else self._scanned_children()
        found: set[int] = set()
        waiting = list(pids)
        while waiting:
            new = children(waiting.pop()) - found
            found |= new
            waiting += new.difference(pids)
        return found

    def process(self, pid: int) -> tuple[float, Figures] | None:
        """When a process started, to know it again, and its CHEAP figures; None if it is gone."""
        words = self._stat(pid)
        if not words or words[0] in (b"Z", b"X"):  # dead, and nobody has asked for its exit code
            return None
        try:
            fds = len(os.listdir(f"{self.root}/{pid}/fd"))
        except OSError:
            fds = None
        return int(words[19]), (int(words[21]) * self._page, int(words[7]), int(words[17]), fds)

    def memory(self, pid: int) -> Figures | None:
        """The FULL figures of a process, None each where it denies them; None if it is gone."""
        try:
            sums = _kilobytes(self._read_or_raise(f"{pid}/smaps_rollup"))
        except PermissionError:
            return DENIED
        except OSError:
            return None if self._rolls_up else DENIED
        if b"Pss:" not in sums:
            return None
        private = (b"Private_Clean:", b"Private_Dirty:", b"Private_Hugetlb:")
        return sum(sums.get(key, 0) for key in private), sums[b"Pss:"], sums.get(b"Pss_Shmem:")

    def available(self) -> int | None:
        """What the machine can still give without swapping."""
        return _kilobytes(self._read("meminfo")).get(b"MemAvailable:")

    def total(self) -> int | None:
        """The machine's memory."""
        return _kilobytes(self._read("meminfo")).get(b"MemTotal:")

    def cgroup(self, pid: int) -> tuple[str, int | None]:
        """The cgroup (v1 or v2) that bounds the memory of a process.

        Returns:
            The file that says how much is charged to it, page cache included, and its limit or
            None. Of a group and those around it this is the one with the lowest limit; "" and
            None where there is no such group.
        """
        bounds = []
        for line in (self._read(f"{pid}/cgroup") or b"").decode().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                bounds += self._bounds("memory", path, "usage_in_bytes", "limit_in_bytes")
            elif not controllers:
                bounds += self._bounds("", path, "current", "max")
        limit, file = min(bounds, key=lambda bound: bound[0], default=(_NO_LIMIT, ""))
        return file, limit if limit < _NO_LIMIT else None

    def _bounds(self, folder: str, path: str, usage: str, limit: str) -> list[tuple[int, str]]:
        # In a container the path may be the one outside it; then only the last of these exists.
        parts = [part for part in path.split("/") if part]
        found = []
        for count in range(len(parts), -1, -1):
            group = "/".join(filter(None, [self.groups, folder, *parts[:count]]))
            if os.path.exists(f"{group}/memory.{usage}"):
                bound = number(f"{group}/memory.{limit}")
                found.append((bound or _NO_LIMIT, f"{group}/memory.{usage}"))
        return found

    def _listed_children(self, pid: int) -> set[int]:
        found: set[int] = set()
        for thread in self._names(f"{pid}/task"):  # a child belongs to the thread that forked it
            found.update(map(int, (self._read(f"{pid}/task/{thread}/children") or b"").split()))
        return found

    def _scanned_children(self) -> Callable[[int], set[int]]:
        # Some kernels list no children: ask every process for its parent.
        families: dict[int, set[int]] = {}
        for name in filter(str.isdigit, self._names(".")):
            if words := self._stat(int(name)):
                families.setdefault(int(words[1]), set()).add(int(name))
        return lambda pid: families.get(pid, set())

    def _stat(self, pid: int) -> list[bytes]:
        # The command's name stands in parentheses and may hold anything: start behind it.
        return (self._read(f"{pid}/stat") or b"").rpartition(b")")[2].split()

    def _names(self, path: str) -> list[str]:
        try:
            return os.listdir(f"{self.root}/{path}")
        except OSError:
            return []

    def _read(self, path: str) -> bytes | None:
        # A process may end between any two calls, also between opening its file and reading it.
        try:
            return self._read_or_raise(path)
        except OSError:
            return None

    def _read_or_raise(self, path: str) -> bytes:
        file = os.open(f"{self.root}/{path}", os.O_RDONLY)
        try:
            parts = []
            while part := os.read(file, 65536):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(file)


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
        """When a process started, to know it again, and its CHEAP figures; None if it is gone."""
        try:
            process = self._psutil.Process(pid)
            with process.oneshot():
                if process.status() == self._psutil.STATUS_ZOMBIE:
                    return None
                memory = process.memory_info()
                faults = getattr(memory, "pfaults", None)
                figures = memory.rss, faults, process.num_threads(), process.num_fds()
                return process.create_time(), figures
        except self._errors:
            return None

    def memory(self, pid: int) -> Figures | None:
        """The FULL figures of a process, None each where it denies them; None if it is gone."""
        try:
            return self._psutil.Process(pid).memory_full_info().uss, None, None
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


def reader() -> Proc | Psutil:
    """Where the figures of processes come from on this system."""
    return Proc() if os.path.exists("/proc/self/stat") else Psutil()


def pss(pid: int) -> int:
    """What a process takes of the memory, in bytes: PSS, or USS or RSS where it cannot be read.

    0 if the process is gone.
    """
    figures = reader()
    full, cheap = figures.memory(pid) or DENIED, figures.process(pid)
    return full[1] or full[0] or (cheap[1][0] if cheap else None) or 0


def shared_memory() -> tuple[int | None, int | None]:
    """What `/dev/shm` holds and its size; None and None where there is none."""
    try:
        disk = os.statvfs("/dev/shm")
    except OSError:
        return None, None
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize


def number(path: str) -> int | None:
    """The number in a file; None where there is no file or no number."""
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _kilobytes(text: bytes | None) -> dict[bytes, int]:
    # Lines such as b"Pss_Shmem:   412 kB"; the kernel's kB are 1024 bytes.
    lines = [line.split() for line in (text or b"").splitlines()]
    return {words[0]: int(words[1]) << 10 for words in lines if words[-1:] == [b"kB"]}
