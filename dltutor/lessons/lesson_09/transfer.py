"""Grade "09.transfer": boxes of any number that are kept so that no worker grows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dltutor.lessons.lesson_09.fix import Task, grader
from dltutor.lessons.lesson_09.material import Array, Boxes, PackedBoxes, write_boxes


def _same(sample: Any, truth: Array) -> bool:
    is_array = isinstance(sample, np.ndarray) and sample.dtype == truth.dtype
    return is_array and np.array_equal(sample, truth)


def _told(sample: Any) -> str:
    if not isinstance(sample, np.ndarray):
        return f"of the type `{type(sample).__name__}`"
    if sample.dtype != np.float32 or sample.shape[1:] != (4,):
        return f"an array of {sample.dtype} with the shape {sample.shape}"
    first = f", the first {sample[0].tolist()}" if len(sample) else ""
    return f"{len(sample)} box{'' if len(sample) == 1 else 'es'}{first}"


BOXES: Final = Task(
    noun="image",
    same=_same,
    told=_told,
    broken=Boxes,
    packed=PackedBoxes,
    write=lambda path, number: write_boxes(path, images=25_000, seed=2 + number),
)
GRADER: Final = grader(BOXES)
