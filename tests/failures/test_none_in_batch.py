"""Test that the fixed case counts missing samples, and opens no file before the epoch."""

from __future__ import annotations

import pytest
import torch

from dltutor.failures import none_in_batch
from dltutor.failures.corrupt_images import VerifiedImages, shared_images
from dltutor.failures.none_in_batch import ImagesOrNone, collate_present

SAMPLE = (torch.ones(3), 1)


def test_what_is_there_is_batched_and_what_is_missing_is_counted() -> None:
    (pixels, labels), missing = collate_present([SAMPLE, None, SAMPLE])
    assert (pixels.shape, labels.tolist(), missing) == ((2, 3), [1, 1], 1)
    assert collate_present([None, None]) == (None, 2)


def test_over_an_epoch_what_came_and_what_was_missed_add_up_to_all_files() -> None:
    loader = none_in_batch.fixed(workers=0).loader
    came = missed = 0
    for batch, missing in loader:
        came += 0 if batch is None else len(batch[1])
        missed += missing
    verified = VerifiedImages(shared_images())
    assert (came, missed) == (len(verified), len(verified.quarantined))


def test_no_file_is_opened_before_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("PIL.Image.open", lambda path, *args: opened.append(path))
    ImagesOrNone(shared_images())
    assert not opened
