"""Read the figures of processes and the machine from `/proc`, or psutil if there's no `/proc`.

The memory sampler (`dltutor/observation/memory/sampler.py`) is a helper process that has to start
fast, and it loads this module. So the module imports as little as possible. All sizes are in bytes.
"""

from __future__ import annotations

import os
from io import FileIO

from dltutor.system import cgroup_files

TYPE_CHECKING = False  # importing typing would take as long as the rest of the helper's start
if TYPE_CHECKING:
    from collections.abc import Callable

    Figures = dict[str, int | None]

# The result of `Proc.memory` if the system doesn't let us read a process's memory.
DENIED: Figures = {"uss": None, "pss": None, "pss_shm": None}


class Proc:
    """A reader of processes' and the machine's figures in Linux's `/proc`, mounted at `root`."""

    source = "proc"

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._rolls_up = os.path.exists(f"{root}/self/smaps_rollup")
        self._lists_children = self._read(f"self/task/{os.getpid()}/children") is not None

    def descendants(self, pids: list[int]) -> set[int]:
        """Return the children of these processes, their children, and so on."""
        children = self._listed_children if self._lists_children else self._scanned_children()
        found: set[int] = set()
        waiting = list(pids)
        while waiting:
            new = children(waiting.pop()) - found
            found |= new
            waiting += new.difference(pids)
        return found

    def process(self, pid: int) -> tuple[float, Figures] | None:
        """Return a process's start time and figures that are quick to read, or None if it ended.

        The start time, in clock ticks since boot, tells the process from a later one with the same
        pid. The figures are rss (in bytes), faults (minor page faults since the process started),
        threads, and fds (open descriptors, or None if the system doesn't let us list them).
        """
        words = self._stat(pid)
        if not _lives(words):
            return None
        try:
            fds = len(os.listdir(f"{self.root}/{pid}/fd"))
        except OSError:
            fds = None
        rss = int(words[21]) * self._page
        cheap = {"rss": rss, "faults": int(words[7]), "threads": int(words[17]), "fds": fds}
        return int(words[19]), cheap

    def birth(self, pid: int) -> tuple[float, int] | None:
        """Return a process's (or zombie's) start time and parent's pid, or None if it's gone."""
        words = self._stat(pid)
        return (int(words[19]), int(words[1])) if words else None

    def is_alive(self, pid: int) -> bool:
        """Return whether the process exists and isn't a zombie."""
        return _lives(self._stat(pid))

    def has_stopped(self, pid: int) -> bool:
        """Return whether all of a process's threads have stopped after a SIGSTOP, or ended.

        A thread in a system call finishes that call first, and the call may create a file in
        `/dev/shm`. So wait until the threads have stopped before you list the process's files.
        """
        threads = (self._stat(f"{pid}/task/{thread}") for thread in self._names(f"{pid}/task"))
        return all(not words or words[0] in (b"T", b"t", b"Z", b"X") for words in threads)

    def command(self, pid: int) -> bytes:
        """Return a process's command line (a NUL ends each word), or b"" if it has ended."""
        return self._read(f"{pid}/cmdline") or b""

    def memory(self, pid: int) -> Figures | None:
        """Return the figures that are slow to read: uss, pss, and pss_shm (PSS in shared memory).

        The figures are in bytes, and pss_shm is None if Linux doesn't report it. If the system
        doesn't let us read the figures, return DENIED, in which each figure is None. If the process
        has ended, return None.
        """
        try:
            sums = _kilobytes(self._read_or_raise(f"{pid}/smaps_rollup"))
        except PermissionError:
            return DENIED
        except OSError:
            return None if self._rolls_up else DENIED
        if b"Pss:" not in sums:
            return None
        private = (b"Private_Clean:", b"Private_Dirty:", b"Private_Hugetlb:")
        uss = sum(sums.get(key, 0) for key in private)
        return {"uss": uss, "pss": sums[b"Pss:"], "pss_shm": sums.get(b"Pss_Shmem:")}

    def available(self) -> int | None:
        """Return how many bytes the machine can still give without swapping, or None if unknown."""
        return _kilobytes(self._read("meminfo")).get(b"MemAvailable:")

    def total(self) -> int | None:
        """Return the size of the machine's memory in bytes, or None if unknown."""
        return _kilobytes(self._read("meminfo")).get(b"MemTotal:")

    def _listed_children(self, pid: int) -> set[int]:
        found: set[int] = set()
        for thread in self._names(f"{pid}/task"):  # a child belongs to the thread that forked it
            found.update(map(int, (self._read(f"{pid}/task/{thread}/children") or b"").split()))
        return found

    def _scanned_children(self) -> Callable[[int], set[int]]:
        # Some Linux kernels have no file with a thread's children, so read every process's parent.
        families: dict[int, set[int]] = {}
        for name in filter(str.isdigit, self._names(".")):
            if words := self._stat(int(name)):
                families.setdefault(int(words[1]), set()).add(int(name))
        return lambda pid: families.get(pid, set())

    def _stat(self, pid: int | str) -> list[bytes]:
        # The command's name is in parentheses and may contain any character, so start after the
        # last ")".
        return (self._read(f"{pid}/stat") or b"").rpartition(b")")[2].split()

    def _names(self, path: str) -> list[str]:
        try:
            return os.listdir(f"{self.root}/{path}")
        except OSError:
            return []

    def _read(self, path: str) -> bytes | None:
        # A process may end at any time, even between the open and the read. So return None then.
        try:
            return self._read_or_raise(path)
        except OSError:
            return None

    def _read_or_raise(self, path: str) -> bytes:
        # Don't use os.open, because an interrupt right after os.open leaves the descriptor open.
        with File(f"{self.root}/{path}") as file:
            return file.readall()


class File(FileIO):
    """A file that Python closes without a warning if an interrupt arrives before `with` has it."""

    def __del__(self) -> None:
        self.close()


class Psutil:
    """A reader of the same figures as `Proc`'s, with psutil, for systems without a `/proc`.

    The methods do what `Proc`'s methods do, but there is no PSS, there are often no page faults,
    and start times are in Unix time.
    """

    source = "psutil"

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._errors = (psutil.Error, OSError, RuntimeError)

    def descendants(self, pids: list[int]) -> set[int]:
        found: set[int] = set()
        for pid in pids:
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
                cheap = {
                    "rss": memory.rss,
                    "faults": getattr(memory, "pfaults", None),
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

    def _machine(self, name: str) -> int | None:
        try:
            return int(getattr(self._psutil.virtual_memory(), name))
        except self._errors:
            return None


def reader(proc: str = "/proc") -> Proc | Psutil:
    """Return a reader that uses `/proc`, or psutil if there is no `/proc`."""
    return Proc(proc) if os.path.exists(f"{proc}/self/stat") else Psutil()


def mapped(pid: int) -> dict[str, int]:
    """Return the sums in `/proc/PID/smaps_rollup` (name -> bytes), or {} if we can't read them."""
    sums = _kilobytes(Proc()._read(f"{pid}/smaps_rollup"))
    return {name.decode().rstrip(":"): size for name, size in sums.items()}


def pss(pid: int) -> int:
    """Return a process's PSS in bytes (USS or RSS if we can't read PSS), or 0 if it's gone."""
    figures = reader()
    full, cheap = figures.memory(pid) or DENIED, figures.process(pid)
    return full["pss"] or full["uss"] or (cheap[1]["rss"] if cheap else None) or 0


def free() -> int | None:
    """Return how many more bytes of memory this process may use, or None if that's unknown.

    The result is what the machine can still give without swapping, or what the cgroups still allow,
    whichever is less.
    """
    left = (reader().available(), cgroup_files.memory_left())
    return min((max(0, each) for each in left if each is not None), default=None)


def shared_memory() -> tuple[int | None, int | None]:
    """Return the used bytes and the size in bytes of `/dev/shm`, or (None, None) without it."""
    try:
        disk = os.statvfs("/dev/shm")
    except OSError:
        return None, None
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize


def _lives(stat: list[bytes]) -> bool:
    # Z is a zombie, whose parent hasn't read its exit code. X is a process that is disappearing.
    return bool(stat) and stat[0] not in (b"Z", b"X")


def _kilobytes(text: bytes | None) -> dict[bytes, int]:
    # Parse lines such as b"Pss_Shmem:   412 kB", where 1 kB is 1024 bytes.
    lines = [line.split() for line in (text or b"").splitlines()]
    return {words[0]: int(words[1]) << 10 for words in lines if words[-1:] == [b"kB"]}
