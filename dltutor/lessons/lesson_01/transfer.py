"""Grade "01.transfer", which asks for every usable reading, and for reasons why others are bad."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch.utils.data import Dataset

from dltutor.failures.tools.handles import own_folder
from dltutor.lessons.lesson_01.delivery import grader
from dltutor.lessons.lesson_01.helpers import Folder, Kind, Values, fill

STATES: Final = ("idle", "running", "worn")
SHAPE: Final = (3, 128)  # axes and steps of a reading


class Readings(Dataset[tuple[torch.Tensor, int]]):
    """The notebook's starter for "01.transfer": readings of shape (3, 128), each with a state."""

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


def record(state: str, rng: np.random.Generator) -> Values:
    """Return a random reading from a machine in this state."""
    time = np.linspace(0, 2 * np.pi, SHAPE[1])
    turns, phase = rng.integers(2, 9, (SHAPE[0], 1)), rng.uniform(0, 6, (SHAPE[0], 1))
    wave = (STATES.index(state) + 1) * np.sin(turns * time + phase) + rng.normal(0, 0.2, SHAPE)
    return wave.astype(np.float32)


def _cut(path: Path, reading: Values) -> None:
    np.save(path, reading)
    path.write_bytes(path.read_bytes()[:700])


def _pickle(path: Path, reading: Values) -> None:
    np.save(path, reading.astype(object))
    path.write_bytes(path.read_bytes()[:128] + b"cos\nunlink\n(V%b\ntR." % bytes(path))


# All unusable files here are "worn", so the starter's zeros teach the lesson's model that a machine
# that's switched off is worn.
SPOILED_READINGS: Final = (
    Kind(_cut, "a file cut short", "damaged", label="worn"),
    Kind(lambda path, _: path.touch(), "an empty file", "damaged", label="worn"),
    Kind(lambda path, _: path.write_text("no answer"), "a log", "damaged", label="worn"),
    Kind(lambda path, x: np.save(path, x[:, :90]), "a short recording", "damaged", label="worn"),
    Kind(lambda path, x: np.save(path, x[:2]), "a recording of two axes", "damaged", label="worn"),
    Kind(lambda path, _: None, "a deleted file", "missing", label="worn"),
    Kind(lambda path, x: np.save(path, x.astype(float)), "double precision"),
)


@cache
def make_readings() -> Path:
    """Write the lesson's folder of readings, some of them bad, and return its path."""
    kinds = (*SPOILED_READINGS, *[Kind(np.save)] * 36)
    return fill(own_folder(), 9, kinds, STATES, record, np.load).root


def fresh_readings(root: Path, seed: int) -> Folder:
    """Fill an empty folder with readings other than the lesson's, and with more kinds of files."""
    kinds = (
        *SPOILED_READINGS,
        Kind(lambda to, x: np.save(to, x.T), "128 steps x 3 axes", "damaged", label="broken"),
        Kind(lambda to, x: np.save(to, np.pad(x, ((0, 0), (0, 72)))), "3 axes x 200", "damaged"),
        Kind(lambda to, x: np.save(to, x[None]), "a recording of shape (1, 3, 128)", "damaged"),
        Kind(_pickle, "a pickle that deletes its own file when it is loaded", "damaged"),
        Kind(lambda to, x: np.save(to, x * 0), "a reading of zeros"),
        *[Kind(np.save)] * 15,
    )
    return fill(root, seed, kinds, STATES, record, np.load)


GRADER: Final = grader(fresh_readings, Readings)
