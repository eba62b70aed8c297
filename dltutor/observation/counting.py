"""Count the batches that a loop gets from its loader."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dltutor.observation import torch_internals


class Counted:
    """A wrapper around a loader's iterator that passes batches to `deliver` and times the waits.

    Attributes:
        waited: How many seconds the loop has waited for batches.
        finished: Whether the iterator reached its end.
    """

    def __init__(self, iterator: Any, deliver: Callable[[Any], None]) -> None:
        self._iterator = iterator
        self._deliver = deliver
        self.waited = 0.0
        self.finished = False

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        began = time.perf_counter()
        try:
            batch = next(self._iterator)
        except StopIteration:
            self.finished = True
            raise
        finally:
            self.waited += time.perf_counter() - began
        self._deliver(batch)
        return batch

    def __len__(self) -> int:
        return len(self._iterator)

    @property
    def samples(self) -> int | None:
        """How many samples the last batch was made of, or None if unknown."""
        inner = self._iterator
        return inner.samples if isinstance(inner, Counted) else torch_internals.samples(inner)

    def release(self) -> None:
        """Drop the loader's iterator, and become an empty iterator."""
        self._iterator = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


@contextmanager
def counting(
    loader: Any, counted: Callable[[Any], Any], before: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Have `iter(loader)` return `counted(iterator)` in the block, except in forked processes.

    Call `before()` each time, before the loader makes the iterator (default: do nothing).

    Python looks up `__iter__` in the object's class, so this function replaces the class's method.
    For other objects of the class, the new method does what the old one did.
    """
    cls, main = type(loader), os.getpid()
    own, inherited = cls.__iter__, "__iter__" not in vars(cls)

    def __iter__(self: Any) -> Any:
        if self is not loader or os.getpid() != main:
            return own(self)
        before()
        return counted(own(self))

    cls.__iter__ = __iter__
    try:
        yield
    finally:
        if inherited:
            del cls.__iter__
        else:
            cls.__iter__ = own
