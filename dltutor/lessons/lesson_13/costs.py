"""What a loader costs, in counts: the processes that it starts, the tensors that it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch.multiprocessing.reductions as reductions


@contextmanager
def starts() -> Iterator[list[str]]:
    """A list that gets the name of each process that is started in the block."""
    started: list[str] = []
    process: Any = BaseProcess
    own = process.start

    def start(self: Any) -> None:
        own(self)
        started.append(self.name)

    process.start = start
    try:
        yield started
    finally:
        process.start = own


def processes_started(run: Callable[[], object]) -> int:
    """How many processes a function starts."""
    with starts() as started:
        run()
    return len(started)


@contextmanager
def messages() -> Iterator[list[int]]:
    """A list that gets, for each message that this process reads, how many tensors it brought."""
    counts: list[int] = []
    inside = [0]
    pickler: Any = ForkingPickler
    rebuild, loads = reductions.rebuild_tensor, pickler.loads

    @wraps(rebuild)  # workers send its name
    def rebuilding(*arguments: Any) -> Any:
        inside[0] += 1
        return rebuild(*arguments)  # type: ignore[no-untyped-call]

    def loading(*arguments: Any, **options: Any) -> Any:
        inside[0] = 0
        thing = loads(*arguments, **options)
        counts.append(inside[0])
        return thing

    reductions.rebuild_tensor = rebuilding
    pickler.loads = staticmethod(loading)
    try:
        yield counts
    finally:
        reductions.rebuild_tensor, pickler.loads = rebuild, staticmethod(loads)
