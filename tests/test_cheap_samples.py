"""Both make the same batches; one indexing for each is what makes it cheap."""

from __future__ import annotations

import torch

from dltutor.failures import cheap_samples
from dltutor.failures.cheap_samples import LENGTH


def test_both_make_the_same_batches() -> None:
    pairs = zip(cheap_samples.broken(workers=0).loader, cheap_samples.fixed().loader, strict=True)
    for (rows, labels), (same_rows, same_labels) in pairs:
        assert torch.equal(rows, same_rows) and torch.equal(labels, same_labels)


def test_the_last_batch_is_kept() -> None:
    assert sum(len(labels) for _, labels in cheap_samples.fixed().loader) == LENGTH


def test_one_indexing_for_a_batch_is_cheaper_than_one_for_a_row() -> None:
    broken, fixed = cheap_samples.broken(workers=0), cheap_samples.fixed()
    assert broken.consume(broken.loader).value > 2 * fixed.consume(fixed.loader).value
