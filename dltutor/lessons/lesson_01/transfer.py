"""Grade "01.transfer": readings that can be used arrive, no zeros do, the rest is accounted for."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result
from dltutor.lessons.lesson_01 import deliveries
from dltutor.lessons.lesson_01.accounts import LOAD_BY_HAND, account
from dltutor.lessons.lesson_01.deliveries import Evidence
from dltutor.lessons.lesson_01.material import (
    AXES,
    STEPS,
    Folder,
    Readings,
    Values,
    measure,
    write_readings,
)

_TOLERANCE: Final = 1e-4
_OTHER_SHAPE: Final = {"a recording that stopped early", "a recording of two axes"}


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(answer, Readings)


def gather(answer: type) -> Evidence:
    """What the answer delivers of readings that it has not seen."""
    return deliveries.gather(answer, fresh_readings(Path(tempfile.mkdtemp())))


def judge(evidence: Evidence) -> Result:
    """Correct if every reading that can be used came, and nothing else did."""
    return account(evidence, _where_to_look)


def fresh_readings(root: Path) -> Folder:
    """Readings with other contents and order than the lesson's.

    Args:
        root: An empty folder for them.
    """
    odd = write_readings(root, 8, seed=77)
    return measure(root, "reading", odd, _load, _TOLERANCE)


def _load(path: Path) -> Values:
    reading = np.load(path)
    if reading.shape != (AXES, STEPS):
        raise ValueError(f"its shape is {reading.shape}")
    return np.asarray(reading, dtype=np.float32)


def _where_to_look(kinds: Collection[str]) -> str:
    if _OTHER_SHAPE.issuperset(kinds):
        return "`np.load` has nothing against them. What is it that makes a reading usable?"
    return LOAD_BY_HAND


GRADER: Final = Grader(
    gather=gather, judge=judge, look=look, runs=deliveries.RUNS, at_most=deliveries.AT_MOST
)
