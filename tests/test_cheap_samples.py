"""Both make the same batches; one indexing for each is what makes it cheap."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.data import TensorDataset

from dltutor.failures import cheap_samples
from dltutor.failures.cheap_samples import BATCH, LENGTH


def test_both_make_the_same_batches() -> None:
    pairs = zip(cheap_samples.broken(workers=0).loader, cheap_samples.fixed().loader, strict=True)
    for (rows, labels), (same_rows, same_labels) in pairs:
        assert torch.equal(rows, same_rows) and torch.equal(labels, same_labels)


def test_the_last_batch_is_kept() -> None:
    assert sum(len(labels) for _, labels in cheap_samples.fixed().loader) == LENGTH


def test_one_indexing_makes_a_row_of_the_broken_and_a_batch_of_the_fixed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    one = TensorDataset.__getitem__
    monkeypatch.setattr(
        TensorDataset, "__getitem__", lambda self, index: asked.append(index) or one(self, index)
    )
    for case, times in (
        (cheap_samples.broken(workers=0), LENGTH),
        (cheap_samples.fixed(), math.ceil(LENGTH / BATCH)),
    ):
        asked.clear()
        assert len(list(case.loader)) == math.ceil(LENGTH / BATCH)
        assert len(asked) == times
