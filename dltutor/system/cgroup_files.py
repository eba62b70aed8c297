"""Find the cgroups that a process is in, and read their limits and usage (versions 1 and 2).

The memory sampler (`dltutor/observation/memory/sampler.py`) is a helper process that has to start
fast, and it loads this module. So the module imports as little as possible.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would take as long as the rest of the helper's start
if TYPE_CHECKING:
    from collections.abc import Iterator

# Version -> the file with the memory that is charged to a group, and the file with its limit.
_MEMORY = {
    1: ("memory.usage_in_bytes", "memory.limit_in_bytes"),
    2: ("memory.current", "memory.max"),
}
_NO_LIMIT = 1 << 60  # a limit of this many bytes or more is none (version 1 reports about 2**63)


def groups(
    controller: str, pid: int | None = None, *, proc: str = "/proc"
) -> list[tuple[str, int]]:
    """Return the folder and version (1 or 2) of each cgroup that a process is in, innermost first.

    If both versions are mounted, each controller belongs to only one of them. A container sees only
    its own group and the groups inside that group. If version 1 doesn't have the controller, return
    the process's groups in version 2, whether or not they have the controller. If version 2 isn't
    mounted in that case, or if the process is gone, the list is empty.

    Args:
        controller: The controller, such as "memory" or "cpu".
        pid: The process. If None, it's this process.
        proc: Where `/proc` is mounted.
    """
    mounted = dict(_mounts(proc))
    paths: dict[str, str] = {}
    for line in _lines(f"{proc}/{pid or 'self'}/cgroup"):
        _, names, path = line.split(":", 2)
        paths.update((name, path) for name in names.split(","))  # the name is "" in version 2
    name = controller if controller in mounted and controller in paths else ""
    if name not in mounted or name not in paths:
        return []
    inside, point = mounted[name]
    folder, found = os.path.normpath(f"{point}/{os.path.relpath(paths[name], inside)}"), []
    while folder.startswith(f"{point}/"):
        found.append(folder)
        folder = os.path.dirname(folder)
    return [(each, 1 if name else 2) for each in (*found, point) if os.path.isdir(each)]


def memory(pid: int | None = None, *, proc: str = "/proc") -> tuple[str, int | None]:
    """Find the cgroup that limits a process's memory the most.

    Returns:
        The path of the file that says how much memory is charged to that group, page cache
        included, and the group's limit in bytes. If no group has a limit, the file is the innermost
        group's, and the limit is None. If no group counts memory, the result is ("", None).
    """
    bounds = list(_memory_bounds(pid, proc))
    file, limit = min(bounds, key=lambda bound: bound[1], default=("", _NO_LIMIT))
    return file, limit if limit < _NO_LIMIT else None


def memory_left(*, proc: str = "/proc") -> int | None:
    """Return how many more bytes this process's cgroups allow, or None without a limit.

    The page cache is charged to a group, but its inactive part counts as free, because Linux gives
    that part up as soon as a process needs the memory.
    """
    left = []
    for file, limit in _memory_bounds(None, proc):
        used = number(file)
        if limit < _NO_LIMIT and used is not None:
            stat = counts(f"{os.path.dirname(file)}/memory.stat")
            # In version 1, the names that start with "total_" include the groups inside the group.
            cached = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            left.append(max(0, limit - used + cached))
    return min(left, default=None)


def cpu_quota(*, proc: str = "/proc") -> float | None:
    """Return how many cores' worth of time this process's cgroups grant, or None for no quota."""
    quotas = []
    for folder, version in groups("cpu", proc=proc):
        if version == 2:
            words = " ".join(_lines(f"{folder}/cpu.max")).split()
        else:
            words = [*_lines(f"{folder}/cpu.cfs_quota_us"), *_lines(f"{folder}/cpu.cfs_period_us")]
        if len(words) == 2 and all(word.isdigit() for word in words):  # "max" and -1 mean no quota
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def number(path: str) -> int | None:
    """Return the number in a file, or None if the file is unreadable or holds a word like "max"."""
    text = "".join(_lines(path))
    return int(text) if text.isdigit() else None


def counts(path: str) -> dict[str, int]:
    """Return the counters in a file with lines such as "oom_kill 1", or {} without such a file."""
    words = [line.split() for line in _lines(path)]
    return {each[0]: int(each[1]) for each in words if len(each) == 2 and each[1].isdigit()}


def _memory_bounds(pid: int | None, proc: str) -> Iterator[tuple[str, int]]:
    for folder, version in groups("memory", pid, proc=proc):
        used, most = (f"{folder}/{name}" for name in _MEMORY[version])
        if os.path.exists(used):  # the root group of version 2 has no such file
            yield used, min(number(most) or _NO_LIMIT, _NO_LIMIT)


def _mounts(proc: str) -> Iterator[tuple[str, tuple[str, str]]]:
    # Yield each mount option of version 1 (the controllers, but also words such as "rw"), or "" for
    # version 2, with the group at the root of the mount, and the mount point.
    for line in _lines(f"{proc}/self/mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            inside, point = (_unescaped(word) for word in left.split()[3:5])
            for name in options.split(",") if kind == "cgroup" else [""]:
                yield name, (inside, point)


def _unescaped(word: str) -> str:
    # In mountinfo, Linux writes a space as \040.
    first, *rest = word.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
