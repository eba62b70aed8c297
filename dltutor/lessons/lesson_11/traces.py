"""Limit an answer's descriptors and time, and record its reads, shared files, and stderr."""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import psutil
import torch.multiprocessing
from torch.utils.data import get_worker_info

from dltutor.failures.data.sentences import Sample, Sentences
from dltutor.observation.texts import tidy
from dltutor.observation.time_limits import deadline
from dltutor.tables import MB

_PATIENCE: Final = 20.0  # the most seconds to wait for a process to end
_TICK: Final = 0.2  # seconds between two looks at stderr
_GRACE: Final = 3.0  # time limit in seconds for a call to end after a worker has lost a batch
_LATE_AT: Final = 30  # the sample at which W0 is late
_LATE: Final = 1.0  # seconds by which W0 is late
_LOADERS: Final = 32  # `Noted` tells apart loaders with fewer workers than this


def leave_few_descriptors(spare: int) -> None:
    """Let this process, and each child that it starts later, open only `spare` more files."""
    # The limit is on a descriptor's number. Also lower the hard limit, so that an answer can't
    # raise the limit again.
    taken = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in range(max(taken) + spare + 1) if number not in taken)
    last = [next(free) for _ in range(spare)][-1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, last + 1))


class Limit(deadline):
    """A deadline that passes earlier if a worker lost a batch because no descriptor was left.

    Args:
        seconds: The deadline in seconds, if no worker loses a batch.
        words: A file with the stderr of all processes.
    """

    def __init__(self, seconds: float, words: str) -> None:
        super().__init__(seconds)
        self._words = os.open(words, os.O_RDONLY)  # opened now, while descriptors are left
        self._lost = False

    def __enter__(self) -> None:
        super().__enter__()
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        os.close(self._words)

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        passed = time.monotonic() - self._started
        said = os.pread(self._words, os.fstat(self._words).st_size, 0)
        if not self._lost and ran_out(said.decode(errors="replace")):
            self._lost = True
            self._seconds = min(self._seconds, passed + _GRACE)
        if passed >= self._seconds:
            super()._ring(signum, frame)


def ran_out(text: str) -> bool:
    """Return whether a message says that there are no more descriptors."""
    return "Too many open files" in text or "ancdata" in text


class Noted(Sentences):
    """A dataset of sentences that counts how many samples each worker reads.

    With more than two workers, W0 is late once. So main first receives what the other workers have
    prefetched, and needs descriptors for all those batches at once.
    """

    def __init__(self, length: int, seed: int) -> None:
        super().__init__(length, seed)
        # A loader's workers have separate slots, because adding isn't atomic.
        self._reads = torch.zeros((_LOADERS, _LOADERS), dtype=torch.int64).share_memory_()
        self.taken = 0

    def __getitem__(self, index: int) -> Sample:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 0)
        self._reads[workers % _LOADERS, number % _LOADERS] += 1
        self.taken += 1
        if workers > 2 and (number, self.taken) == (0, _LATE_AT):
            time.sleep(_LATE)
        return super().__getitem__(index)

    def reads(self) -> dict[int, int]:
        """Return how many samples the workers read, by their loader's number of workers.

        The key 0 is for processes that aren't a loader's workers. Counts of 0 are left out.
        """
        counts = enumerate(self._reads.sum(1).tolist())
        return {workers: count for workers, count in counts if count}


@contextmanager
def kept_strategy(notes: str) -> Iterator[None]:
    """Keep torch's sharing strategy in this block, even if the answer sets another one.

    Args:
        notes: The file that gets the name of the strategy that the answer set.
    """

    def note(new: str) -> None:  # also called in forked workers
        if new != "file_descriptor":
            Path(notes).write_text(new)

    with patch.object(torch.multiprocessing, "set_sharing_strategy", note):
        yield


@contextmanager
def errors_to(path: str) -> Iterator[None]:
    """Send the stderr of this process and its children to a file during this block."""
    kept = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Blocks:
    """A record of the shared files that this process maps for writing, to find leftovers.

    Files mapped for reading don't count, because libraries map such files at any time, as glibc
    does with its table of character sets.
    """

    def __init__(self) -> None:
        self._before, self._names = _mapped().keys(), set[str]()

    def look(self) -> None:
        """Record the files that are mapped now and weren't before."""
        # Leave out semaphores, because a spawned worker's queue keeps one open.
        new = _mapped().keys() - self._before
        self._names.update(name for name in new if name[:1] == "/" and "/sem." not in name)

    def left(self) -> list[Path]:
        """Return the recorded files that still have a name."""
        return [path for path in map(Path, self._names) if path.is_file()]

    def mapped(self) -> float:
        """Return how many MB of the recorded files are still mapped."""
        return sum(size for name, size in _mapped().items() if name in self._names) / MB


def _mapped() -> Counter[str]:
    # Return how many bytes this process maps as shared and writable, by file name.
    found: Counter[str] = Counter()
    for each in psutil.Process().memory_maps(grouped=False):
        if each.perms[1] == "w" and each.perms.endswith("s"):
            found[each.path] += each.size
    return found


def type_of(thing: Any) -> str:
    """Return an object's type, and the type of its numbers, as in "Tensor of torch.int64"."""
    name = type(thing).__name__
    if isinstance(thing, np.generic):
        return f"numpy.{name}"
    return f"{name} of {thing.dtype}" if hasattr(thing, "dtype") else name


def tracker_said(path: str) -> str:
    """End Python's resource tracker, and return its complaint about shared blocks, or "".

    Args:
        path: The file that has the tracker's stderr.
    """
    # The tracker writes when the last process, which is main, closes the tracker's pipe.
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
    matches = map(words.search, lines)
    return next((re.sub(r"'/.*", "'/psm_...'", found[0]) for found in matches if found), "")
