"""How many samples are in a batch, by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def length_by_shape(batch: Any) -> int | None:
    """The number of samples in a batch that torch's `default_collate` made.

    It puts the samples' first parts into one tensor, or into one list where they are strings. Of
    any other batch the length of its first part is a guess.

    Returns:
        The length, or None where nothing in the batch has one.
    """
    if isinstance(batch, Mapping):
        return length_by_shape(next(iter(batch.values()), None))
    if isinstance(batch, (list, tuple)):
        # ["cat", "dog"] is a batch of names; [images, labels] is one of tensors.
        named = not batch or isinstance(batch[0], (str, bytes))
        return len(batch) if named else length_by_shape(batch[0])
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else None
