"""What notebook 07 shows and uses: marked source, two classes beside each other, clips, labels."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import torch
from IPython.display import Markdown
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.kit.contract import load
from dltutor.failures.lost_thread import Pairs
from dltutor.observation import observe
from dltutor.tables import Table

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
    return Markdown(text)  # IPython has no type hints


def beside(*classes: type, folder: Path) -> Table:
    """Two workers for each of these classes of pairs, after main has taken a sample."""
    rows = []
    for made in classes:
        dataset, batches = made(folder), list[Any]()
        expected = torch.stack([dataset[index] for index in range(len(dataset))])
        keep = lambda loader, batches=batches: batches.extend(map(torch.clone, loader))  # noqa: E731
        seen = observe(load(dataset, 2, "fork"), consume=keep, deadline=3)
        same = seen.end == "finished" and torch.equal(torch.cat(batches), expected)
        samples = f"{seen.samples} of {len(expected)}"
        rows.append((made.__name__, seen.end, samples, "yes" if same else "no"))
    return Table("Two workers", tuple(rows), ("class", "end", "samples", "the same as in main"))


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
            label = self.labels[self.names[index]]
        return index, label


class Server:
    """The labels on a server. Each correction changes all of them.

    A reading stays half done until the workers are forked, or for half a second. On a real server
    it takes long enough by itself, now and then.

    Args:
        shift: What sets this server's labels apart from another's.
    """

    def __init__(self, shift: int = 0) -> None:
        self.version = 0
        self._shift = shift
        self._main = os.getpid()
        self.most_readings = multiprocessing.get_context("fork").Value("i")  # by one worker
        self._readings = 0
        self._reader = self._main  # the process that counts them
        self._stopped = threading.Event()  # the refresh, to let the workers be forked
        self._stopped.set()
        self._forked = threading.Event()
        self._half_way = True  # whether that is in the middle of the reading

    def label(self, number: int, version: int) -> int:
        """The label of a clip in one version."""
        return (number * 3 + self._shift + version) % 10

    def read(self) -> Iterator[tuple[str, int]]:
        """All lines: a name, and its label of now."""
        if os.getpid() != self._main:
            self._count()
        version = self.version
        for number in range(CLIPS):
            if number == CLIPS // 2 and os.getpid() == self._main and self._half_way:
                self.fork_now()
            yield f"clip{number:02}", self.label(number, version)

    def _count(self) -> None:
        if self._reader != os.getpid():
            self._reader, self._readings = os.getpid(), 0
        self._readings += 1
        with self.most_readings:
            self.most_readings.value = max(self.most_readings.value, self._readings)

    def fork_now(self) -> None:
        """Stop here until the workers are forked; only once in an epoch, and not for long."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._forked.wait(_PAUSE)

    def correct(self, *, half_way: bool = True) -> None:
        """Correct all labels. The next reading stops once, half-way if `half_way` is true."""
        self.version += 1
        self._half_way = half_way
        self._stopped.clear()
        self._forked.clear()

    def epoch(
        self, loader: DataLoader[Any], refresh: Callable[[], object] | None = None
    ) -> list[Any]:
        """Run an epoch whose workers are forked while a thread refreshes the labels.

        The refresh goes on when the first batch has come, and is done before the others are taken.

        Args:
            loader: The loader.
            refresh: What the thread calls in the place of the dataset's own `refresh`. It calls
                `fork_now` itself, at another moment than half-way through the reading.

        Returns:
            The batches.
        """
        dataset: Any = loader.dataset
        self.correct(half_way=refresh is None)

        def run() -> None:
            try:
                (refresh or dataset.refresh)()
            finally:
                self._stopped.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            self._stopped.wait(_PATIENCE)
            batches = iter(loader)
            first = deepcopy(next(batches))  # its own, not in shared memory
            self._forked.set()
            thread.join(_PATIENCE)
            return [first, *map(deepcopy, batches)]
        finally:
            self._forked.set()
            thread.join(_PATIENCE)
