"""What processes hold, and how often the garbage collector ran in them: measured for a grader."""

from __future__ import annotations

import dis
import gc
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import psutil

from dltutor.failures.kit.gauge import MEGABYTE

_OLDEST: Final = 2  # the generation that gc.collect() collects
_SHM: Final = Path("/dev/shm")
_OF_LIBRARIES: Final = ("torch_", "psm_", "sem.")  # what other programs make there all the time


def held(pid: int) -> float:
    """MB that a process has written and shares with nobody.

    Pages of a file that it maps and only reads do not count: the kernel takes them back when it
    needs to. USS counts them, where no other process has them mapped.
    """
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private_Dirty:"):
                return int(line.split()[1]) * 1024 / MEGABYTE
    except OSError:  # no such file on this system, or no such process any more
        pass
    with suppress(psutil.Error):
        return float(psutil.Process(pid).memory_full_info().uss) / MEGABYTE
    return 0.0


def shm_files() -> dict[int, float]:
    """The files that have a name in `/dev/shm`, without those of torch and Python.

    Returns:
        Inode -> MB.
    """
    sizes = {}
    for path in _SHM.rglob("*"):
        with suppress(OSError):
            found = path.stat()
            if path.is_file() and not path.name.startswith(_OF_LIBRARIES):
                sizes[found.st_ino] = found.st_blocks * 512 / MEGABYTE
    return sizes


def count_collections() -> Callable[[], int]:
    """Count full collections in this process and in those that it forks, from now on.

    Returns:
        A function that tells how many there were so far.
    """
    file, path = tempfile.mkstemp()  # open as long as the process
    os.unlink(path)

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == _OLDEST:
            with suppress(OSError):
                os.write(file, b".")  # one file position for all: they append

    gc.callbacks.append(note)
    return lambda: os.fstat(file).st_size


def small_garbage() -> None:
    """Have later collections look only at what is made from now on: they are quick.

    And in a worker that is forked later they copy no page of main's objects.
    """
    gc.collect()
    gc.freeze()


def names_in(thing: Any) -> set[str]:
    """The names that a function, or the methods of a class, use; and "del" where they use that."""
    if isinstance(thing, type):
        return {name for value in vars(thing).values() for name in names_in(value)}
    function = getattr(thing, "__func__", getattr(thing, "__wrapped__", thing))
    return _names(function.__code__) if isinstance(function, FunctionType) else set()


def _names(code: CodeType) -> set[str]:
    names = {*code.co_names}
    if any(each.opname in ("DELETE_FAST", "DELETE_DEREF") for each in dis.get_instructions(code)):
        names.add("del")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _names(inner)
    return names
