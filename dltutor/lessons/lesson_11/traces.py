"""What an answer leaves behind: descriptors, files in `/dev/shm`, mappings, words on stderr."""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch.multiprocessing

from dltutor.observation.texts import fate, tidy
from dltutor.tables import MB, Note

_PATIENCE: Final = 20.0  # seconds for a process to end


def keep_the_limit(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: nobody but the grader sets how many files may be open."""
    if event == "resource.setrlimit" and not _ours and arguments[0] == resource.RLIMIT_NOFILE:
        raise PermissionError("the check keeps the limit of open files as it is")


_ours: list[bool] = []  # not empty while the grader sets the limit


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """A block in which a process, and those that it forks, can open so many files and no more."""
    # The limit is on the numbers of descriptors.
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in range(max(taken) + spare + 1) if number not in taken)
    last = [next(free) for _ in range(spare)][-1]
    _set_limit(min(last + 1, before[1]) if before[1] > 0 else last + 1, before[1])
    try:
        yield
    finally:
        _set_limit(*before)


def _set_limit(soft: int, hard: int) -> None:
    _ours.append(True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    _ours.clear()


@contextmanager
def noted_strategies(notes: str) -> Iterator[None]:
    """A block in which each sharing strategy that is set is written down, in a worker too."""
    ours = torch.multiprocessing
    set_it: Callable[[str], None] = ours.set_sharing_strategy

    def note(new: str) -> None:
        with Path(notes).open("a") as file:
            file.write(f"{new}\n")
        set_it(new)

    before = ours.get_sharing_strategy()
    ours.set_sharing_strategy = note
    try:
        yield
    finally:
        now = ours.get_sharing_strategy()
        ours.set_sharing_strategy = set_it
        if now != before:
            note(now)
            set_it(before)


@contextmanager
def errors_to(path: str) -> Iterator[None]:
    """A block in which all that this process and its children write to stderr goes to a file."""
    kept, file = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Files:
    """The files in `/dev/shm` that this process makes or maps from now on, as long as they have
    names: torch's have none.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        sys.addaudithook(self._note)

    def _note(self, event: str, given: tuple[Any, ...]) -> None:
        with suppress(OSError, TypeError):
            if event == "mmap.__new__" and given[0] >= 0:
                self.names.add(os.readlink(f"/proc/self/fd/{given[0]}"))
            elif event == "open" and isinstance(given[0], str):
                self.names.add(given[0])

    def there(self) -> list[Path]:
        """Those that are still there."""
        ours = (Path(name) for name in self.names if name.startswith("/dev/shm/"))
        return [path for path in ours if path.is_file()]


def type_of(thing: Any) -> str:
    """Its type, and that of its numbers: "Tensor of torch.int64"."""
    name = type(thing).__name__
    return f"{name} of {thing.dtype}" if hasattr(thing, "dtype") else name


def mapped() -> float:
    """MB of memory that this process maps and others can map: with a name or without."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if re.search(r" (/dev/shm/|/memfd:|/dev/zero|/tmp/\S*pymp-)", line):
            start, _, end = line.partition(" ")[0].partition("-")
            total += int(end, 16) - int(start, 16)
    return total / MB


def tracker_said(path: str) -> str:
    """What Python's resource tracker has written to this file about blocks, once it has ended."""
    # It speaks when the last process that talks to it is gone, and main is that one.
    tracker: Any = resource_tracker._resource_tracker
    if tracker._fd is not None:
        os.close(tracker._fd)
        until = time.monotonic() + _PATIENCE
        with suppress(ChildProcessError):
            while not os.waitpid(tracker._pid, os.WNOHANG)[0] and time.monotonic() < until:
                time.sleep(0.02)
        tracker._fd = tracker._pid = None
    lines = tidy(Path(path).read_text(errors="replace")).splitlines()
    words = re.compile(r"There appear .* leaked shared_memory objects|KeyError: '/.*")
    told = map(words.search, lines)
    return next((re.sub(r"'/.*", "'/psm_...'", found[0]) for found in told if found), "")


def read_after_close(table: Callable[[Any], Any]) -> Note:
    """In a process of its own: take a row of a small table, close the table, read the row.

    Args:
        table: A class such as `Rows`.
    """
    hear, say = os.pipe()
    process = get_context("fork").Process(target=_read_after_close, args=(table, say))
    process.start()
    os.close(say)
    process.join(_PATIENCE)
    process.kill()
    process.join()
    with open(hear) as told:
        left = told.read().split()
    for name in left:
        Path(name).unlink(missing_ok=True)
    what = "read it" if process.exitcode == 0 else f"was {fate(process.exitcode)}"
    return Note(
        "A row after close():",
        f"the process that read it {what.replace('read it', 'could')}. "
        f"Files left in /dev/shm: {len(left)}.",
    )


def _read_after_close(table: Callable[[Any], Any], say: int) -> None:
    faulthandler.disable()  # a death here is what is asked for
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the tracker's words, too
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None  # it gets its own, which removes the block in the end
    files = Files()
    rows = table(np.arange(12, dtype=np.float32).reshape(3, 4))
    row = rows[1]
    rows.close()
    os.write(say, " ".join(map(str, files.there())).encode())
    os.close(say)
    row.sum().item()
