"""Test that the fixed collate function pads the samples, and says how long each one is."""

from __future__ import annotations

import torch

from dltutor.failures.ragged_batch import collate_clips


def test_the_lengths_tell_padding_from_sound() -> None:
    batch = collate_clips([(torch.ones(3), 0), (torch.ones(2), 1)])
    assert batch["sounds"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["lengths"].tolist() == [3, 2]
    assert batch["speakers"].tolist() == [0, 1]
