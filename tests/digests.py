"""What a loader delivered, in a form that can be compared and holds no batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader


def digest(batch: Any) -> str:
    """A batch as text: types, shapes and values, nested as they are."""
    if isinstance(batch, torch.Tensor):
        array = batch.detach().numpy()
        return f"{batch.dtype}{tuple(batch.shape)}:{hashlib.sha1(array.tobytes()).hexdigest()}"
    if isinstance(batch, np.ndarray):
        return f"{batch.dtype}{batch.shape}:{hashlib.sha1(batch.tobytes()).hexdigest()}"
    if isinstance(batch, dict):
        return "{" + ", ".join(f"{key}: {digest(value)}" for key, value in batch.items()) + "}"
    if isinstance(batch, (list, tuple)):
        return f"{type(batch).__name__}({', '.join(map(digest, batch))})"
    return repr(batch)


class Delivered:
    """A training loop that writes down what it gets.

    Args:
        ordered: Keep batches in their order; otherwise their values, sorted.
    """

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.complete = False
        """Whether the first iterator came to its end."""
        self._got: list[Any] = []

    def __call__(self, loader: DataLoader[Any]) -> None:
        for _ in self.tap(loader):
            pass

    def tap(self, loader: DataLoader[Any]) -> Any:
        """The loader for another training loop: its first iterator is written down."""
        return _Tapped(loader, self)

    def keep(self, batch: Any) -> None:
        """Write a batch down."""
        self._got += [digest(batch)] if self.ordered else _values(batch)

    def all(self) -> list[Any]:
        """What came."""
        return self._got if self.ordered else sorted(self._got)


def _values(batch: Any) -> Iterable[Any]:
    assert isinstance(batch, torch.Tensor) and batch.dim() == 1, "unordered: see Failure.ordered"
    return batch.tolist()


class _Tapped:
    """A loader whose first iterator writes down what passes."""

    def __init__(self, loader: DataLoader[Any], delivered: Delivered) -> None:
        self._loader = loader
        self._delivered: Delivered | None = delivered

    def __iter__(self) -> Any:
        delivered, self._delivered = self._delivered, None
        iterator = iter(self._loader)
        return iterator if delivered is None else _TappedIterator(iterator, delivered)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _TappedIterator:
    def __init__(self, iterator: Any, delivered: Delivered) -> None:
        self._iterator = iterator
        self._delivered = delivered

    def __iter__(self) -> _TappedIterator:
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._delivered.complete = True
            raise
        self._delivered.keep(batch)
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)
