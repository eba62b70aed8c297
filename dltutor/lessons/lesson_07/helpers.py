"""Provide source code with letters, a dataset, and a server of labels for notebook 07."""

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

#: For each letter in question "07.diagnose", part of the line in `Pairs` that the letter marks.
LETTERS: Final = {
    "A": "ThreadPoolExecutor(max_workers=1)",
    "B": "self.thread.map(",
    "C": "self.thread.submit(",
    "D": "mask.result()",
}
CLIPS: Final = 12
_PAUSE: Final = 0.5  # the most seconds that a refresh waits for the first batch
_PATIENCE: Final = 1.0  # the most seconds that an epoch waits for a refresh


def marked() -> Markdown:
    """Return the source of `Pairs`, with a letter at the end of each line in LETTERS."""
    lines = inspect.getsource(Pairs).splitlines()
    for letter, text in LETTERS.items():
        lines = [f"{line}  # {letter}" if text in line else line for line in lines]
    text = "\n".join(["```python", *lines, "```"])
    return Markdown(text)


class Clips(Dataset[tuple[int, int]]):
    """The notebook's starter for "07.transfer", whose lock protects the clips' labels."""

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
    """A server of labels, which all change with each version.

    Servers with a different `shift` give different labels.
    """

    def __init__(self, shift: int = 0) -> None:
        self.version = 0
        self.half_way: Callable[[], object] = int  # called halfway through each reading in main
        self._shift = shift
        self._main = os.getpid()
        self._reader = 0  # pid of the worker that has read the labels

    def label(self, number: int, version: int) -> int:
        """Return the label of a clip in one version."""
        return (number * 3 + self._shift + version) % 10

    def read(self) -> Iterator[tuple[str, int]]:
        """Yield each clip's name and current label. If a worker reads twice, raise RuntimeError."""
        if self._reader == os.getpid():
            raise RuntimeError("the server is busy: this worker has already read its labels")
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
        """Run an epoch, and fork its workers while a thread refreshes the labels.

        The refresh pauses until the first batch has arrived, and then has 1 s to end before the
        loop takes the other batches.

        Args:
            loader: The loader whose workers main forks.
            refresh: A function that refreshes the labels, and calls its argument when main should
                fork. That call returns once the first batch has arrived, or after 0.5 s.

        Returns:
            The batches of the epoch.
        """
        self.version += 1
        stopped, forked = threading.Event(), threading.Event()

        def stop() -> None:
            if not stopped.is_set():  # pause the refresh only once
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
            batches = map(deepcopy, loader)  # copies that aren't in shared memory
            first = list(islice(batches, 1))
            forked.set()
            thread.join(_PATIENCE)
            return [*first, *batches]
        finally:
            forked.set()
            thread.join(_PATIENCE)
