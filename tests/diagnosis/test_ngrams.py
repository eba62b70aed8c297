"""Test that `alike` recognizes the same values however they're cut into samples, and no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dltutor.diagnosis.objects.ngrams import Counts, alike, count

VALUES = np.random.default_rng(0).integers(0, 1000, 60_000)


def cut(values: np.ndarray, length: int, *, padding: int = 0) -> Counts:  # type: ignore[type-arg]
    """Cut values into rows of `length`, add `padding` zeros to each, and count the n-grams."""
    rows = values[: len(values) // length * length].reshape(-1, length)
    return count({"ids": torch.from_numpy(np.pad(rows, ((0, 0), (0, padding))))})


@pytest.mark.parametrize("kind", ["int64", "int32", "uint8", "float32"])
def test_the_same_values_cut_differently_are_alike(kind: str) -> None:
    values = VALUES.astype(kind)
    assert alike(cut(values, 250), cut(values[100:], 300, padding=40))


def test_values_that_are_lost_or_repeated_are_not_alike() -> None:
    whole = cut(VALUES, 250)
    overlapping = np.concatenate([VALUES[:30_000], VALUES[15_000:45_000]])
    for other in (overlapping, VALUES[::-1].copy(), VALUES + 1):
        assert not alike(cut(other, 250), whole)


def test_where_there_is_nothing_to_count_nothing_is_alike() -> None:
    nothing = count([torch.zeros(4, 64), torch.arange(4), "words", np.array([None] * 9), object()])
    assert nothing.sum() == 0 and not alike(nothing, nothing)
