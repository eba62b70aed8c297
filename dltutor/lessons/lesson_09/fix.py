"""Grade "09.fix": captions that are kept so that no worker grows."""

from __future__ import annotations

from functools import partial
from typing import Final

from dltutor.failures.material.captions import Captions, PackedCaptions
from dltutor.lessons.lesson_09 import rewrite
from dltutor.lessons.lesson_09.growth import Task
from dltutor.lessons.lesson_09.material import write_captions

TASK: Final = Task(
    noun="caption",
    kind="a `str`",
    is_kind=lambda sample: isinstance(sample, str),
    same=lambda sample, truth: bool(sample == truth),
    told=lambda sample: f"{str(sample)!r:.60}",
    broken=Captions,
    packed=PackedCaptions,
    write=partial(write_captions, count=50_000),
)
GRADER: Final = rewrite.grader(TASK)
