"""Which cgroups bound a process, and what their files say: of version 1 and of version 2.

The sampler's helper loads it: it imports as little as it can.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost the helper as much as all the rest
if TYPE_CHECKING:
    from collections.abc import Iterator

# Version -> the files that say how much memory is charged to a group, and how much may be.
_MEMORY = {
    1: ("memory.usage_in_bytes", "memory.limit_in_bytes"),
    2: ("memory.current", "memory.max"),
}
_NO_LIMIT = 1 << 60  # version 1 writes "no limit" as a number near 2**63


def groups(
    controller: str, pid: int | None = None, *, proc: str = "/proc"
) -> list[tuple[str, int]]:
    """The cgroups that a process is in, the innermost first.

    Where both versions are mounted, a controller belongs to one of them. In a container only the
    groups from its own on are seen.

    Args:
        controller: Such as "memory" or "cpu".
        pid: The process; None for this one.
        proc: Where `/proc` is.

    Returns:
        The folder of each and its version, 1 or 2; none where none is mounted.
    """
    mounted = dict(_mounts(proc))
    paths: dict[str, str] = {}
    for line in _lines(f"{proc}/{pid or 'self'}/cgroup"):
        _, names, path = line.split(":", 2)
        paths.update((name, path) for name in names.split(","))  # "" for version 2
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
    """What bounds the memory of a process: of its cgroups, the one with the lowest limit.

    Returns:
        The file that says how much is charged to that group, page cache included, and its limit
        or None. "" and None where there is no such group.
    """
    bounds = list(_memory_bounds(pid, proc))
    file, limit = min(bounds, key=lambda bound: bound[1], default=("", _NO_LIMIT))
    return file, limit if limit < _NO_LIMIT else None


def memory_left(pid: int | None = None, *, proc: str = "/proc") -> int | None:
    """How much memory the cgroups of a process still allow it, in bytes; None without a limit.

    Files in the page cache are charged to a group, and given up as soon as memory is wanted.
    """
    left = []
    for file, limit in _memory_bounds(pid, proc):
        used = number(file)
        if limit < _NO_LIMIT and used is not None:
            stat = counts(f"{os.path.dirname(file)}/memory.stat")
            # Of version 1 the names that start with "total_" include the groups below.
            cached = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            left.append(max(0, limit - used + cached))
    return min(left, default=None)


def cpu_quota(pid: int | None = None, *, proc: str = "/proc") -> float | None:
    """How many cores' worth of time the cgroups of a process grant it; None without a quota."""
    quotas = []
    for folder, version in groups("cpu", pid, proc=proc):
        if version == 2:
            words = " ".join(_lines(f"{folder}/cpu.max")).split()
        else:
            words = [*_lines(f"{folder}/cpu.cfs_quota_us"), *_lines(f"{folder}/cpu.cfs_period_us")]
        if len(words) == 2 and all(word.isdigit() for word in words):  # not "max", not -1
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def number(path: str) -> int | None:
    """The number in a file; None where there is no file or no number, such as "max"."""
    text = "".join(_lines(path))
    return int(text) if text.isdigit() else None


def counts(path: str) -> dict[str, int]:
    """The lines such as "oom_kill 1" of a file; none where it cannot be read."""
    words = [line.split() for line in _lines(path)]
    return {each[0]: int(each[1]) for each in words if len(each) == 2 and each[1].isdigit()}


def _memory_bounds(pid: int | None, proc: str) -> Iterator[tuple[str, int]]:
    for folder, version in groups("memory", pid, proc=proc):
        used, most = (f"{folder}/{name}" for name in _MEMORY[version])
        if os.path.exists(used):  # the outermost group of version 2 has no such file
            yield used, min(number(most) or _NO_LIMIT, _NO_LIMIT)


def _mounts(proc: str) -> Iterator[tuple[str, tuple[str, str]]]:
    # Controller, "" for version 2 -> the group in which the mount begins, and where it is mounted.
    for line in _lines(f"{proc}/self/mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            inside, point = (_unescaped(word) for word in left.split()[3:5])
            for name in options.split(",") if kind == "cgroup" else [""]:
                yield name, (inside, point)


def _unescaped(word: str) -> str:
    # A space is written as \040.
    first, *rest = word.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
