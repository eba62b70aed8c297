"""What notebook 07 shows and uses: marked source, clips, labels."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any, Final

from IPython.display import Markdown
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.lost_thread import Pairs

#: The lines of `Pairs` that question "07.diagnose" is about: letter -> what stands in it.
LETTERS: Final = {
    "A": "ThreadPoolExecutor(max_workers=1)",
    "B": "self.thread.map(",
    "C": "self.thread.submit(",
    "D": "mask.result()",
}
CLIPS: Final = 12
_PAUSE: Final = 0.5  # seconds that a refresh waits for a fork at most
_PATIENCE: Final = 1.0  # seconds that an epoch waits for a refresh


def marked() -> Markdown:
    """The source of `Pairs`; each of the lines of LETTERS has its letter at the end."""
    lines = inspect.getsource(Pairs).splitlines()
    for letter, text in LETTERS.items():
        lines = [f"{line}  # {letter}" if text in line else line for line in lines]
    text = "\n".join(["```python", *lines, "```"])
    return Markdown(text)


class Clips(Dataset[tuple[int, int]]):
    """The starter of "07.transfer": clips and labels, and a lock that a thread holds at times."""

    def __init__(self, read_labels: Callable[[], Iterator[tuple[str, int]]]) -> None:
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
            return index, self.labels[self.names[index]]


class Server:
    """The labels on a server. Each correction, a new version, changes all of them.

    Args:
        shift: What sets this server's labels apart from another's.
    """

    def __init__(self, shift: int = 0) -> None:
        self.version = 0
        self.half_way: Callable[[], object] = int  # called in the middle of each reading in main
        self._shift = shift
        self._main = os.getpid()
        self._reader = 0  # the worker that has read the list

    def label(self, number: int, version: int) -> int:
        """The label of a clip in one version."""
        return (number * 3 + self._shift + version) % 10

    def read(self) -> Iterator[tuple[str, int]]:
        """All lines: a name, and its label of now."""
        if self._reader == os.getpid():
            raise RuntimeError("the server is busy: this worker has read its list before")
        in_main = os.getpid() == self._main
        if not in_main:
            self._reader = os.getpid()
        version = self.version
        for number in range(CLIPS):
            if in_main and number == CLIPS // 2:
                self.half_way()
            yield f"clip{number:02}", self.label(number, version)

    def epoch(
        self, loader: DataLoader[Any], refresh: Callable[[Callable[[], None]], object]
    ) -> list[Any]:
        """Run an epoch whose workers are forked while a thread refreshes the labels.

        The refresh goes on when the first batch has come, and is done before the others are taken.

        Args:
            loader: The loader.
            refresh: Refreshes the labels. It takes a function that it calls at the moment of the
                fork: that returns when the workers are there, after half a second at most.

        Returns:
            The batches.
        """
        self.version += 1
        stopped, forked = threading.Event(), threading.Event()

        def stop() -> None:
            if not stopped.is_set():  # only once
                stopped.set()
                forked.wait(_PAUSE)

        def run() -> None:
            try:
                refresh(stop)
            finally:
                stopped.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            stopped.wait(_PATIENCE)
            batches = map(deepcopy, loader)  # their own, not in shared memory
            first = list(islice(batches, 1))
            forked.set()
            thread.join(_PATIENCE)
            return [*first, *batches]
        finally:
            forked.set()
            thread.join(_PATIENCE)
