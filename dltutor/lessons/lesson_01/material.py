"""Sensor readings for "01.transfer", and what a check has to know of a folder of files.

NOTE [ The Dataset That Never Fails ]

`Readings` catches every exception and returns zeros in place of what it could not load. The
epoch ends well, each batch has the right shape, no message appears. But each file that could
not be used now stands for a machine that does not move at all, under the label of one that
does, and the model learns it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset

from dltutor.failures.kit.handles import own_folder

CLASSES: Final = ("idle", "running", "worn")
AXES: Final = 3
STEPS: Final = 128

Array = NDArray[np.float32]
Values = NDArray[np.floating[Any]]
Entry = tuple[str, str]  # path and class, a line of labels.csv


@dataclass(frozen=True)
class Files:
    """The files of a folder.

    Args:
        noun: What each holds: "image".
        listed: The lines of `labels.csv`, in order.
        causes: Path of each file that cannot be used -> "missing", "too large", "damaged" or "".
        odd: Path -> what is odd about the file, in words. Odd files may be usable.
    """

    noun: str
    listed: tuple[Entry, ...]
    causes: dict[str, str]
    odd: dict[str, str]


@dataclass(frozen=True)
class Folder:
    """A folder, measured before an answer sees it.

    Args:
        root: Where it is.
        files: What is in it.
        contents: Path of each usable file -> what it holds, the way the lesson loads it.
        tolerance: The mean absolute difference that another right way of loading may make.
    """

    root: Path
    files: Files
    contents: dict[str, Values]
    tolerance: float

    @property
    def unit(self) -> bool:
        """Whether all values are between 0 and 1."""
        return all(0 <= held.min() <= held.max() <= 1 for held in self.contents.values())


class Readings(Dataset[tuple[torch.Tensor, int]]):
    """Vibration of machines, 3 axes x 128 steps, and the state each machine was in."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        with (self.root / "labels.csv").open(newline="") as file:
            self.listed = [(path, label) for path, label in csv.reader(file)]
        self.classes = sorted({label for _, label in self.listed})

    def __len__(self) -> int:
        return len(self.listed)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.listed[index]
        try:
            reading = np.load(self.root / path).reshape(AXES, STEPS)
        except Exception:
            reading = np.zeros((AXES, STEPS))
        return torch.from_numpy(reading).float(), self.classes.index(label)


def make_readings(folder: str | Path | None = None, *, per_class: int = 12, seed: int = 9) -> Path:
    """Fill a folder with readings, a few of them odd, and the list `labels.csv`.

    Args:
        folder: Where to write. None: a new temporary folder, removed when Python exits.
        per_class: Healthy readings in each class.
        seed: The same seed gives the same files.

    Returns:
        The folder.
    """
    root = own_folder() if folder is None else Path(folder)
    write_readings(root, per_class, seed)
    return root


def write_readings(root: Path, per_class: int, seed: int) -> dict[str, str]:
    """Write the readings, and return path -> what is odd about the file, in words."""
    rng = np.random.default_rng(seed)
    listed: list[tuple[str, str]] = []
    odd: dict[str, str] = {}
    for strength, label in enumerate(CLASSES, start=1):
        (root / label).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            listed.append((f"{label}/{i:03}.npy", label))
            np.save(root / listed[-1][0], _record(strength, rng))
    for i, (kind, spoil) in enumerate(_SPOILERS.items()):
        label = CLASSES[i % len(CLASSES)]
        path = f"{label}/{per_class + i:03}.npy"
        spoil(root / path, _record(i % len(CLASSES) + 1, rng))
        listed.append((path, label))
        odd[path] = kind
    rng.shuffle(listed)
    write_list(root, listed)
    return odd


def read_list(root: Path) -> list[Entry]:
    """The lines of `labels.csv`."""
    with (root / "labels.csv").open(newline="") as file:
        return [(path, label) for path, label in csv.reader(file)]


def write_list(root: Path, listed: Iterable[Entry]) -> None:
    """Write `labels.csv`."""
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(listed)


def measure(
    root: Path, noun: str, odd: dict[str, str], load: Callable[[Path], Values], tolerance: float
) -> Folder:
    """Load every listed file once.

    Args:
        root: The folder.
        noun: What a file holds.
        odd: Path -> what is odd about it, in words.
        load: Reads one file.
        tolerance: As a Folder has it.
    """
    listed = read_list(root)
    contents: dict[str, Values] = {}
    causes: dict[str, str] = {}
    for path, _ in listed:
        try:
            contents[path] = load(root / path)
        except (OSError, EOFError, ValueError, Image.DecompressionBombError) as error:
            causes[path] = _cause(error)
    return Folder(root, Files(noun, tuple(listed), causes, odd), contents, tolerance)


def _cause(error: Exception) -> str:
    if isinstance(error, (PermissionError, IsADirectoryError)):
        return ""  # which of the two it is depends on who asks
    if isinstance(error, FileNotFoundError):
        return "missing"
    return "too large" if isinstance(error, Image.DecompressionBombError) else "damaged"


def _record(strength: int, rng: np.random.Generator) -> Array:
    time = np.linspace(0, 2 * np.pi, STEPS)
    turns, phase = rng.integers(2, 9, (AXES, 1)), rng.uniform(0, 6, (AXES, 1))
    wave = strength * np.sin(turns * time + phase) + rng.normal(0, 0.2, (AXES, STEPS))
    return wave.astype(np.float32)


def _cut(path: Path, reading: Array) -> None:
    np.save(path, reading)
    path.write_bytes(path.read_bytes()[:700])


# What is odd about a file -> how it is written.
_SPOILERS: Final[dict[str, Callable[[Path, Array], object]]] = {
    "a file cut short": _cut,
    "an empty file": lambda path, reading: path.touch(),
    "a log named .npy": lambda path, reading: path.write_text("sensor 3: no answer\n"),
    "a recording that stopped early": lambda path, reading: np.save(path, reading[:, :90]),
    "a recording of two axes": lambda path, reading: np.save(path, reading[:2]),
    "a reading in double precision": lambda path, reading: np.save(path, reading.astype(float)),
    "a file deleted since it was listed": lambda path, reading: None,
}
