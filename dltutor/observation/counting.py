"""Counting what a loader delivers, where the loop gets it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from torch.utils.data import DataLoader, default_collate

from dltutor.observation.foreign import attribute, elements, is_a, length

_DEEP: Final = 32  # levels of a batch


class Counted:
    """An iterator of a loader that tells of each batch; everything else is the iterator's own.

    Args:
        iterator: The loader's own.
        deliver: Called with each batch.
    """

    def __init__(self, iterator: Any, deliver: Callable[[Any], None]) -> None:
        self._iterator = iterator
        self._deliver = deliver

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        batch = next(self._iterator)
        self._deliver(batch)
        return batch

    def __len__(self) -> int:
        return len(self._iterator)

    def let_go(self) -> None:
        """Become an iterator without anything left in it."""
        self._iterator = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


@contextmanager
def counting(loader: Any, counted: Callable[[Any], Any]) -> Iterator[None]:
    """Have `iter(loader)` return `counted(iterator)` in the block.

    Args:
        loader: Any object that can be iterated. Python looks `__iter__` up in its class, so it is
            replaced there; other objects of the class iterate as ever.
        counted: Given what the loader's own `__iter__` returns.
    """
    cls, main = type(loader), os.getpid()
    own, inherited = cls.__iter__, "__iter__" not in vars(cls)

    def __iter__(self: Any) -> Any:
        iterator = own(self)
        return counted(iterator) if self is loader and os.getpid() == main else iterator

    cls.__iter__ = __iter__
    try:
        yield
    finally:
        if inherited:
            del cls.__iter__
        else:
            cls.__iter__ = own


def count_samples(loader: Any, batch: Any) -> int:
    """How many samples a batch holds, as far as its shape tells.

    A list made by a collate function of the learner's own counts as a list of samples.
    """
    if is_a(loader, DataLoader):
        if loader.batch_sampler is None:  # no batching: each item is a sample
            return 1
        if is_a(batch, list) and loader.collate_fn is not default_collate:
            return length(batch) or 0
    return _first_dimension(batch)


def _first_dimension(batch: Any) -> int:
    for _ in range(_DEEP):
        if not is_a(batch, (Mapping, list, tuple)):
            break
        _, first = next(elements(batch), (None, None))
        # ["cat", "dog"] is a batch of names; [images, labels] is one of tensors.
        if is_a(batch, (list, tuple)) and is_a(first, str):
            return length(batch) or 0
        batch = first
    if batch is None:
        return 0
    shape = attribute(batch, "shape")
    return int(shape[0]) if is_a(shape, tuple) and shape else 1
