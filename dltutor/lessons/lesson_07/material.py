"""Clips whose labels are corrected while the loader is running, and source code with letters."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from mmap import mmap
from types import ModuleType
from typing import Any, Final

from IPython.display import Markdown
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.failures import held_lock, lost_thread, openmp_after_fork, plot_in_thread
from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.lesson_07.line_by_line import Place, stopping_before

Line = tuple[str, int]  # a clip's name and its label

CLIPS: Final = 12

#: The lines of `Pairs` that question "07.diagnose" is about: letter -> what stands in it.
LETTERS: Final = {
    "A": "ThreadPoolExecutor(max_workers=1)",
    "B": "self.thread.map(",
    "C": "self.thread.submit(",
    "D": "mask.result()",
}

#: Four more failures with this symptom: what main had -> the failure mode, and its options.
CASES: Final[dict[str, tuple[ModuleType, dict[str, Any]]]] = {
    "a cache that a thread saves": (held_lock, {}),
    "a thread that reads ahead": (lost_thread, {"kind": "reader"}),
    "a chart that a thread draws": (plot_in_thread, {}),
    "two threads for each worker": (openmp_after_fork, {}),
}

_LABELS: Final = 10
_PAUSE: Final = 0.5  # seconds that a reading stays half done at most
_PATIENCE: Final = 1.0  # seconds for a refresh to get there
_MOST: Final = 255  # what a byte can count


def marked(thing: type = Pairs) -> Markdown:
    """The source of a class; each of the lines of LETTERS has its letter at the end."""
    lines = inspect.getsource(thing).splitlines()
    for letter, text in LETTERS.items():
        lines = [f"{line}  # {letter}" if text in line else line for line in lines]
    text = "\n".join(["```python", *lines, "```"])
    return Markdown(text)  # type: ignore[no-untyped-call]  # IPython has no type hints


class Clips(Dataset[tuple[int, int]]):
    """The starter of "07.transfer": clips and labels, and a lock that a thread holds at times."""

    def __init__(self, read_labels: Callable[[], Iterator[Line]]) -> None:
        self.read_labels = read_labels
        self.lock = threading.Lock()
        self.labels: dict[str, int] = {}
        self.refresh()
        self.names = sorted(self.labels)

    def refresh(self) -> None:
        with self.lock:
            self.labels.clear()
            for name, label in self.read_labels():
                self.labels[name] = label

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[int, int]:
        with self.lock:
            label = self.labels[self.names[index]]
        return index, label


class Tally:
    """Counts what forked workers do. Each has a byte of its own, so that none waits for another.

    Args:
        workers: How many workers there are at the most.
    """

    def __init__(self, workers: int = 4) -> None:
        self._counts = mmap(-1, workers)  # memory that forked processes share, without a file

    def add(self) -> None:
        """Count once, if this is a worker."""
        if worker := get_worker_info():
            self._counts[worker.id] = min(self._counts[worker.id] + 1, _MOST)

    @property
    def total(self) -> int:
        """The count of all workers."""
        return sum(self._counts[:])


class Server:
    """The labels on a server. Each correction changes all of them.

    A reading stays half done until the workers are forked, or for half a second. On a real server
    it takes long enough by itself, now and then.

    Args:
        shift: What sets this server's labels apart from another's.
    """

    def __init__(self, shift: int = 0) -> None:
        self.version = 0
        self.failed: BaseException | None = None
        self.read_by_workers = Tally()
        self._shift = shift
        self._main = os.getpid()
        self._stop_before: Place | None = None
        self._half_done = threading.Event()
        self._forked = threading.Event()
        self._forked.set()

    def label(self, number: int, version: int) -> int:
        """The label of a clip in one version."""
        return (number * 3 + self._shift + version) % _LABELS

    def read(self) -> Iterator[Line]:
        """All lines: a name, and its label of now."""
        version = self.version
        for number in range(CLIPS):
            if number == CLIPS // 2:
                self._pause()
            yield f"clip{number:02}", self.label(number, version)

    def epoch(self, loader: DataLoader[Any], before: Place | None = None) -> list[Any]:
        """Run an epoch whose workers are forked while a thread refreshes the labels.

        Args:
            loader: The loader.
            before: Fork them when the refresh has come to this line of the dataset's class,
                instead of half-way through the reading.

        Returns:
            The batches.
        """
        self.version += 1
        self._stop_before = before
        self._half_done.clear()
        self._forked.clear()
        thread = threading.Thread(target=self._refresh, args=(loader.dataset,), daemon=True)
        thread.start()
        try:
            self._half_done.wait(_PATIENCE)
            batches = iter(loader)
            self._forked.set()
            return [deepcopy(batch) for batch in batches]  # its own, not in shared memory
        finally:
            self._forked.set()
            thread.join(_PATIENCE)

    def _refresh(self, dataset: Any) -> None:
        try:
            if self._stop_before is None:
                dataset.refresh()
            else:
                stopping_before(type(dataset), self._stop_before, self._stop, dataset.refresh)
        except BaseException as error:  # told by who started the thread
            self.failed = error

    def _pause(self) -> None:
        if os.getpid() != self._main:
            self.read_by_workers.add()
        elif self._stop_before is None:
            self._stop()

    def _stop(self) -> None:
        # Once in an epoch: a fork that waits for the lock may wait for the whole refresh.
        if not self._half_done.is_set():
            self._half_done.set()
            self._forked.wait(_PAUSE)
