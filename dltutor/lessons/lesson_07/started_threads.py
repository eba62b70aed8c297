"""Counting the threads that forked workers start."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dltutor.lessons.lesson_07.tally import Tally


@contextmanager
def threads_counted() -> Iterator[Tally]:
    """Count the threads that two workers start, if they are forked in the block."""
    started = Tally()
    start = threading.Thread.start

    def count(self: threading.Thread) -> None:
        if not _passes_batches(self):
            started.add()
        start(self)

    threading.Thread.start = count  # type: ignore[method-assign]  # the workers copy it
    try:
        yield started
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]  # as it was


def _passes_batches(thread: threading.Thread) -> bool:
    # A worker's queue and its shared memory have threads of Python's own.
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", "")).startswith("multiprocessing.")
