"""What an answer does and leaves behind: descriptors, files, mappings, words on stderr."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import torch.multiprocessing
from torch.utils.data import get_worker_info

from dltutor.failures.data.sentences import Sample, Sentences
from dltutor.failures.tools.handles import PerProcess
from dltutor.observation.texts import tidy
from dltutor.observation.time_limits import deadline
from dltutor.tables import MB

_PATIENCE: Final = 20.0  # seconds for a process to end
_TICK: Final = 0.2  # seconds between two looks at what was said
_GRACE: Final = 3.0  # seconds for a call to end that has lost a batch and does not wait for it
_LATE_AT: Final = 30  # the sample at which a worker is late
_LATE: Final = 1.0  # seconds
_SHARED: Final = Path("/dev/shm")


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


class Limit(deadline):
    """A deadline that comes sooner where a worker has had no descriptor for a batch.

    Args:
        seconds: The deadline.
        words: A file with what all processes have written to stderr.
    """

    def __init__(self, seconds: float, words: str) -> None:
        super().__init__(seconds)
        self._words = os.open(words, os.O_RDONLY)  # now, while there are descriptors
        self._lost = False

    def __enter__(self) -> None:
        super().__enter__()
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        with suppress(OSError):
            os.close(self._words)

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        passed = time.monotonic() - self._started
        with suppress(OSError):  # an answer may have closed it
            said = os.pread(self._words, os.fstat(self._words).st_size, 0)
            if not self._lost and ran_out(said.decode(errors="replace")):
                self._lost = True
                self._seconds = min(self._seconds, passed + _GRACE)
        if passed >= self._seconds:
            signal.setitimer(signal.ITIMER_REAL, _TICK / 4, _TICK / 4)  # an `except:` may take it
            super()._ring(signum, frame)


def ran_out(text: str) -> bool:
    """Whether it says that there are no more descriptors."""
    return "Too many open files" in text or "ancdata" in text


class Noted(Sentences):
    """Sentences that note who reads them: a line with pid and number of workers for each sample.

    The first of four workers is late once. What the others have prefetched comes to main meanwhile,
    so that its descriptors are needed at the same time in every run.
    """

    def __init__(self, length: int, seed: int, notes: str) -> None:
        super().__init__(length, seed)
        self.notes = PerProcess(partial(os.open, notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
        self.taken = 0

    def __getitem__(self, index: int) -> Sample:
        worker = get_worker_info()
        os.write(self.notes.get(), b"%d %d\n" % (os.getpid(), worker.num_workers if worker else 0))
        self.taken += 1
        if worker and worker.num_workers > 2 and (worker.id, self.taken) == (0, _LATE_AT):
            time.sleep(_LATE)
        return super().__getitem__(index)


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
    # Not among the first three, which an answer may close.
    kept = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 3)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Files:
    """The files that this process makes or maps from now on: by name, open, and mapped.

    A library maps files of its own whenever it likes, for reading, as glibc does with its table of
    character sets. So of what is mapped, only what can be written counts.
    """

    def __init__(self) -> None:
        self._opened, self._mapped = _opened(), _mapped()
        self._shared = {path.name for path in _SHARED.glob("*")}
        self.names: set[str] = set()
        sys.addaudithook(self._note)

    def _note(self, event: str, given: tuple[Any, ...]) -> None:
        with suppress(OSError, TypeError):
            if event == "mmap.__new__" and given[0] >= 0 and given[2] != mmap.ACCESS_READ:
                self.names.add(os.readlink(f"/proc/self/fd/{given[0]}"))
            elif event == "open" and given[2] & os.O_CREAT:
                self.names.add(os.path.abspath(os.fsdecode(given[0])))

    def look(self) -> None:
        """Note what is mapped now and was not before: of files of torch's, Python hears nothing."""
        # A semaphore of a spawned worker's queue is mapped for as long as the queue is there.
        new = _mapped().keys() - self._mapped.keys()
        self.names.update(name for name in new if name[:1] == "/" and "/sem." not in name)

    def there(self) -> list[Path]:
        """Those that still have a name."""
        return [path for path in map(Path, self.names) if path.is_file()]

    def remove(self) -> None:
        """Remove those in `/dev/shm` that were not there before.

        All else lies in the folder of the check, which is removed, or is the learner's.
        """
        for path in self.there():
            if path.parent == _SHARED and path.name not in self._shared:
                path.unlink(missing_ok=True)

    def opened(self) -> int:
        """How many descriptors of files are open that were not before, with names or without."""
        return len(_opened() - self._opened)

    def mapped(self) -> float:
        """MB of memory that this process maps and others can map and see, more than before."""
        return (_mapped().total() - self._mapped.total()) / MB


def _opened() -> set[tuple[str, str]]:
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is closed by now
            if path.is_file():
                found.add((path.name, os.readlink(path)))
    return found


def _mapped() -> Counter[str]:
    # Name -> bytes of what this process can write and another can map, too.
    found: Counter[str] = Counter()
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights[1] == "w" and rights.endswith("s"):
            start, _, end = addresses.partition("-")
            found["".join(name)] += int(end, 16) - int(start, 16)
    return found


def type_of(thing: Any) -> str:
    """Its type, and that of its numbers: "Tensor of torch.int64"."""
    name = type(thing).__name__
    if isinstance(thing, np.generic):
        return f"numpy.{name}"
    return f"{name} of {thing.dtype}" if hasattr(thing, "dtype") else name


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
