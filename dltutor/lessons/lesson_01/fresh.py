"""A fresh folder for a check, and what its files hold, measured before an answer sees it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Entry = tuple[str, str]  # path and class, a line of labels.csv


@dataclass(frozen=True)
class Folder:
    """Files and their list `labels.csv`, one line `path,class` each.

    Args:
        root: The folder.
        listed: The lines of the list, in order.
        usable: Path -> what the file holds, the way the lesson loads it.
        unusable: Path -> why it cannot be loaded on this machine.
        odd: Path -> what is odd about the file, in words. Odd files may be usable.
    """

    root: Path
    listed: tuple[Entry, ...]
    usable: dict[str, Values]
    unusable: dict[str, str]
    odd: dict[str, str]

    @property
    def class_of(self) -> dict[str, int]:
        """Path -> its class number: the place of its class among the sorted classes."""
        classes = sorted({label for _, label in self.listed})
        return {path: classes.index(label) for path, label in self.listed}

    @contextmanager
    def with_one_odd_file(self, path: str) -> Iterator[None]:
        """List only the first healthy files and this one in the block."""
        healthy = [entry for entry in self.listed if entry[0] not in self.odd][:3]
        write_list(self.root, [*healthy, *(entry for entry in self.listed if entry[0] == path)])
        try:
            yield
        finally:
            write_list(self.root, self.listed)


def measure(
    root: Path,
    load: Callable[[Path], Values],
    odd: dict[str, str],
    errors: tuple[type[Exception], ...],
) -> Folder:
    """Look at every listed file once.

    Args:
        root: The folder.
        load: Reads one file.
        odd: Path -> what is odd about it, in words.
        errors: What `load` may raise for a file that cannot be used.
    """
    listed = read_list(root)
    usable: dict[str, Values] = {}
    unusable: dict[str, str] = {}
    for path, _ in listed:
        try:
            usable[path] = load(root / path)
        except errors as error:
            unusable[path] = f"{type(error).__name__}: {error}"
    return Folder(root, tuple(listed), usable, unusable, odd)


def read_list(root: Path) -> list[Entry]:
    """The lines of `labels.csv`."""
    with (root / "labels.csv").open(newline="") as file:
        return [(path, label) for path, label in csv.reader(file)]


def write_list(root: Path, listed: Iterable[Entry]) -> None:
    """Write `labels.csv`."""
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(listed)
