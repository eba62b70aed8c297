"""What "01.transfer" is graded on: fresh readings, and where to look in them."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from dltutor.lessons.lesson_01.fresh import Folder, Values, measure
from dltutor.lessons.lesson_01.readings import AXES, STEPS, Readings, write_readings
from dltutor.lessons.lesson_01.task import LOAD_BY_HAND, Task

_OTHER_SHAPE: Final = {"a recording that stopped early", "a recording of two axes"}


@contextmanager
def fresh_readings() -> Iterator[Folder]:
    """Readings with other contents and order than the lesson's, removed after the block."""
    with tempfile.TemporaryDirectory(prefix="dltutor-", ignore_cleanup_errors=True) as folder:
        odd = write_readings(Path(folder), 8, seed=77)
        yield measure(Path(folder), _load, odd, (OSError, EOFError, ValueError))


def _load(path: Path) -> Values:
    reading = np.load(path)
    if reading.shape != (AXES, STEPS):
        raise ValueError(f"its shape is {reading.shape}")
    return np.asarray(reading, dtype=np.float32)


def _look_at_readings(kinds: Collection[str]) -> str:
    if _OTHER_SHAPE.issuperset(kinds):
        return "`np.load` has nothing against them. What is it that makes a reading usable?"
    return LOAD_BY_HAND


TRANSFER: Final = Task(
    starter=Readings,
    noun="reading",
    fresh=fresh_readings,
    shape=(AXES, STEPS),
    unit_range=False,
    tolerance=1e-4,
    look=_look_at_readings,
    invented=lambda readings: "",
)
