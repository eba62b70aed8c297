"""Find out from a batch's shape how many samples the batch has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dltutor.observation.foreign import attribute, elements, is_a, length

_DEEP: Final = 32  # the most levels of nested containers to follow


def length_by_shape(batch: Any) -> int | None:
    """Return the number of samples in a batch that torch's `default_collate` made.

    `default_collate` puts the samples' first parts into one tensor, or into one list if they are
    strings. This function returns the length of that tensor or list. If other code made the batch,
    the result is only a guess.

    Returns:
        The number, or None if the batch's first part has no dimensions and isn't a list of strings.
    """
    for _ in range(_DEEP):
        if not is_a(batch, (Mapping, list, tuple)):
            break
        _, first = next(elements(batch), (None, ""))
        # ["cat", "dog"] is a batch of names, but [images, labels] is a batch of tensors.
        if is_a(batch, (list, tuple)) and is_a(first, (str, bytes)):
            return length(batch)
        batch = first
    shape = attribute(batch, "shape")
    return int(shape[0]) if is_a(shape, tuple) and shape else None
