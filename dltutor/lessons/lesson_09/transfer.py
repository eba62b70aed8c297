"""Grade "09.transfer": boxes of any number that are kept so that no worker grows."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from dltutor.lessons.lesson_09 import rewrite
from dltutor.lessons.lesson_09.growth import Task
from dltutor.lessons.lesson_09.material import Array, Boxes, PackedBoxes, write_boxes


def _is_boxes(sample: Any) -> bool:
    return (
        isinstance(sample, np.ndarray)
        and sample.dtype == np.float32
        and sample.ndim == 2
        and sample.shape[1] == 4
    )


def _told(sample: Array) -> str:
    first = f", the first {sample[0].astype(int).tolist()}" if len(sample) else ""
    return f"{len(sample)} box{'' if len(sample) == 1 else 'es'}{first}"


TASK: Final = Task(
    noun="image",
    kind="a numpy array of float32 with 4 columns",
    is_kind=_is_boxes,
    same=lambda sample, truth: bool(np.array_equal(sample, truth)),
    told=_told,
    broken=Boxes,
    packed=PackedBoxes,
    write=partial(write_boxes, images=20_000, seed=2),
)
GRADER: Final = rewrite.grader(TASK)
