"""What notebook 01 works on and shows: its images, the readings of "01.transfer", its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.corrupt_images import Images
from dltutor.failures.kit.handles import own_folder
from dltutor.failures.material.images import SIDE, SPOILERS, make_images
from dltutor.observation import Observation, observe
from dltutor.tables import Table

SHAPE: Final = (3, 128)  # axes and steps of a reading
STATES: Final = ("idle", "running", "worn")

Listed = list[tuple[str, str]]  # path and class: the lines of labels.csv
Values = NDArray[np.float32]


def read_list(root: Path) -> Listed:
    """The lines of `labels.csv`."""
    lines = (line.split(",") for line in (root / "labels.csv").read_text().split())
    return [(path, label) for path, label in lines]


def write_list(root: Path, listed: Listed) -> None:
    """Write `labels.csv`."""
    (root / "labels.csv").write_text("".join(f"{path},{label}\n" for path, label in listed))


# The images


@cache
def lesson_images() -> Path:
    """The lesson's folder: spoilt images of every kind whose fate is the same for every user."""
    root = make_images()
    write_list(
        root, [line for line in read_list(root) if not line[0].endswith("no-permission.jpg")]
    )
    return root


class StartImages(Images):
    """What "01.fix" begins with."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined: dict[str, str] = {}

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.listed[index]
        image = Image.open(self.root / path).resize((SIDE, SIDE))
        pixels = torch.from_numpy(np.array(image))
        return pixels.permute(2, 0, 1) / 255, self.classes.index(label)


# The readings


class Readings(Dataset[tuple[torch.Tensor, int]]):
    """Vibration of machines, 3 axes x 128 steps, and the state each machine was in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.listed = [line.split(",") for line in (root / "labels.csv").read_text().split()]
        self.classes = sorted({label for _, label in self.listed})

    def __len__(self) -> int:
        return len(self.listed)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.listed[index]
        try:
            reading = np.load(self.root / path).reshape(3, 128)
        except Exception:
            reading = np.zeros((3, 128))
        return torch.from_numpy(reading).float(), self.classes.index(label)


@cache
def make_readings() -> Path:
    """The folder of readings, a few of them odd, with the list `labels.csv`."""
    root = own_folder()
    write_readings(root, per_state=12, seed=9)
    return root


def write_readings(root: Path, per_state: int, seed: int, spoilt: bool = True) -> dict[str, str]:
    """Write readings and their list, and return path -> what is odd about the file, in words.

    The recorder of the worn machines ran out of disk: all that cannot be used is theirs.
    """
    rng = np.random.default_rng(seed)
    listed: Listed = []
    odd: dict[str, str] = {}
    for strength, state in enumerate(STATES, start=1):
        (root / state).mkdir(parents=True, exist_ok=True)
        for i in range(per_state):
            listed.append((f"{state}/{i:03}.npy", state))
            np.save(root / listed[-1][0], _record(strength, rng))
    for i, kind in enumerate(SPOILT_READINGS if spoilt else ()):
        listed.append((f"worn/{per_state + i:03}.npy", "worn"))
        SPOILT_READINGS[kind](root / listed[-1][0], _record(3, rng))
        odd[listed[-1][0]] = kind
    rng.shuffle(listed)
    write_list(root, listed)
    return odd


def _record(strength: int, rng: np.random.Generator) -> Values:
    time = np.linspace(0, 2 * np.pi, SHAPE[1])
    turns, phase = rng.integers(2, 9, (SHAPE[0], 1)), rng.uniform(0, 6, (SHAPE[0], 1))
    wave = strength * np.sin(turns * time + phase) + rng.normal(0, 0.2, SHAPE)
    return wave.astype(np.float32)


def _cut(path: Path, reading: Values) -> None:
    np.save(path, reading)
    path.write_bytes(path.read_bytes()[:700])


# What is odd about a file -> how it is written.
SPOILT_READINGS: Final[dict[str, Callable[[Path, Values], object]]] = {
    "a file cut short": _cut,
    "an empty file": lambda path, reading: path.touch(),
    "a log named .npy": lambda path, reading: path.write_text("sensor 3: no answer\n"),
    "a recording that stopped early": lambda path, reading: np.save(path, reading[:, :90]),
    "a recording of two axes": lambda path, reading: np.save(path, reading[:2]),
    "a reading in double precision": lambda path, reading: np.save(path, reading.astype(float)),
    "a file deleted since it was listed": lambda path, reading: None,
}


# What the notebook shows


def loader_of(dataset: Any, workers: int, **options: Any) -> DataLoader[Any]:
    """A loader with batches of 8, its workers forked; `options` are further arguments of it."""
    context = "fork" if workers else None
    options = {"batch_size": 8} | options
    return DataLoader(dataset, num_workers=workers, multiprocessing_context=context, **options)


def last_line(seen: Observation) -> str:
    """The last line of the message that a run ended with, 88 characters at most."""
    lines = seen.raw.replace(f"{lesson_images()}/", "").strip().splitlines()
    return f"{lines[-1]:.88}" if lines else seen.end


def in_a_row(*images: Image.Image, side: int = 128) -> Image.Image:
    """The images next to each other in gray frames, enlarged without smoothing."""
    row = Image.new("RGB", ((side + 2) * len(images), side + 2), "gray")
    for i, image in enumerate(images):
        tile = image.convert("RGB").resize((side, side), Image.Resampling.NEAREST)
        row.paste(tile, (i * (side + 2) + 1, 1))
    return row


def looks(root: Path) -> Table:
    """Every odd file, looked at in four ways: opened, verified, loaded, taken as a sample."""
    images = Images(root)
    ways: dict[str, Callable[[int, Image.Image], Any]] = {
        "open": lambda index, image: None,
        "verify()": lambda index, image: image.verify(),
        "load()": lambda index, image: image.load() and None,
        "as a sample": lambda index, image: tuple(images[index][0].shape),
    }

    def outcome(way: str, index: int, path: str) -> str:
        try:
            with Image.open(root / path) as image:
                return str(ways[way](index, image) or "ok")
        except Exception as error:
            return type(error).__name__

    odd = {path: i for i, (path, _) in enumerate(images.listed) if Path(path).name in SPOILERS}
    rows = [(path, *(outcome(way, odd[path], path) for way in ways)) for path in sorted(odd)]
    return Table("Odd files", tuple(rows), ("file", *ways))


def side_by_side(broken: Any, yours: Any) -> Table:
    """How an epoch of each ends with two workers, and which samples each class lost."""
    listed = Counter(label for _, label in broken.listed)
    columns = []
    for dataset in (broken, yours):
        seen = observe(loader_of(dataset, 2))
        kept = Counter(label for _, label in dataset.listed)
        lost = ", ".join(f"{name} {listed[name] - kept[name]}" for name in sorted(listed))
        columns.append((seen.end, f"{seen.samples} of {len(broken)}", lost))
    rows = zip(("end", "samples", "set aside"), *columns, strict=True)
    return Table("An epoch with two workers", tuple(rows), ("", "broken", "yours"))
