"""What a quarantine exercise asks for, and a run's batches read accordingly."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dltutor.lessons.kit.answers import wrong
from dltutor.lessons.lesson_01.fresh import Folder, Values

#: Where to look when a file raises what the answer does not expect.
LOAD_BY_HAND: Final = (
    "What does such a file raise when you load it by hand, and which of that does your class "
    "expect?"
)


@dataclass(frozen=True)
class Task:
    """What differs from one quarantine exercise to another.

    Args:
        starter: The broken dataset that the learner mends.
        noun: What a sample is: "picture".
        fresh: Makes the folder that the answer is graded on.
        shape: The shape of a sample.
        unit_range: Whether values run from 0 to 1.
        tolerance: The mean absolute difference that a way of loading may make.
        look: Odd kinds that end the epoch -> where to look.
        invented: Samples that no file holds -> what was seen in them, or nothing.
    """

    starter: type
    noun: str
    fresh: Callable[[], AbstractContextManager[Folder]]
    shape: tuple[int, ...]
    unit_range: bool
    tolerance: float
    look: Callable[[Collection[str]], str]
    invented: Callable[[Values], str]


def read(task: Task, batches: list[Any]) -> tuple[Values, list[int]]:
    """The samples and class numbers of an epoch, one after the other.

    Raises:
        Unfit: They have another form than the task asks for.
    """
    values: list[Any] = []
    numbers: list[int] = []
    for batch in batches:
        pair = isinstance(batch, list) and len(batch) == 2
        if not (pair and all(isinstance(part, np.ndarray) for part in batch)):
            wrong(
                f"a batch is {_form(batch)}. It has to be a tensor of {task.noun}s and a tensor of "
                "class numbers."
            )
        if batch[0].shape[1:] != task.shape or batch[0].dtype.kind != "f":
            wrong(
                f"{task.noun}s arrive as {_form(batch[0])}. Each has to be a tensor of floats of "
                f"shape {task.shape}."
            )
        if batch[1].dtype.kind not in "iu" or batch[1].ndim != 1:
            wrong(f"classes arrive as {_form(batch[1])}. Each has to be a whole number.")
        values.extend(batch[0])
        numbers.extend(int(number) for number in batch[1])
    stacked = np.stack(values) if values else np.empty((0, *task.shape), np.float32)
    if task.unit_range and len(stacked) and (stacked.min() < 0 or stacked.max() > 1):
        wrong(f"values run from {stacked.min():g} to {stacked.max():g}, and not from 0 to 1.")
    return stacked, numbers


def _form(thing: Any) -> str:
    if isinstance(thing, np.ndarray):
        return f"{thing.dtype} of shape {thing.shape}"
    if isinstance(thing, list):
        return f"a list of {len(thing)} ({', '.join(type(part).__name__ for part in thing[:3])})"
    return f"a {type(thing).__name__}"
