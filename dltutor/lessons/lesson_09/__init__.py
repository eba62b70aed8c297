"""Lesson 09: copy-on-read. What its notebook imports."""

from dltutor.display.kinds import draw_kinds
from dltutor.failures import copy_on_read, gc_dirties_pages
from dltutor.failures.gc_dirties_pages import frozen_heap
from dltutor.failures.kit.gauge import sent_to_spawned
from dltutor.failures.material.captions import (
    LISTED,
    STORED,
    Captions,
    SharedCaptions,
    TensorCaptions,
    close_memory,
    shared_captions,
)
from dltutor.lessons.lesson_09.material import Boxes, shared_boxes, workers_own
from dltutor.tables import Table, size

__all__ = [
    "LISTED",
    "STORED",
    "Boxes",
    "Captions",
    "SharedCaptions",
    "Table",
    "TensorCaptions",
    "close_memory",
    "copy_on_read",
    "draw_kinds",
    "frozen_heap",
    "gc_dirties_pages",
    "sent_to_spawned",
    "shared_boxes",
    "shared_captions",
    "size",
    "workers_own",
]
