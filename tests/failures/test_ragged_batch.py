"""Test which error a ragged batch raises, and that the fixed collate function pads the samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from datasets import load

from dltutor.failures import ragged_batch
from dltutor.failures.ragged_batch import Clips, collate_clips
from dltutor.observation import observe
from dltutor.observation.texts import said

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

RESIZE = "RuntimeError: Trying to resize storage that is not resizable"
STACK = "RuntimeError: stack expects each tensor to be equal size"


@pytest.mark.parametrize(
    ("longest_first", "workers", "told"),
    [(True, 2, RESIZE), (False, 2, STACK), (True, 0, STACK)],
)
def test_what_is_said_depends_on_the_first_sample_and_on_the_workers(
    longest_first: bool, workers: int, told: str
) -> None:
    dataset: Any = ragged_batch.broken().loader.dataset
    clips = Clips(dataset.paths if longest_first else dataset.paths[::-1])
    [(kind, message)] = observe(load(clips, batch_size=4, num_workers=workers)).chain
    assert said(kind, message).startswith(told)


def test_the_lengths_tell_padding_from_sound() -> None:
    batch = collate_clips([(torch.ones(3), 0), (torch.ones(2), 1)])
    assert batch["sounds"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["lengths"].tolist() == [3, 2]
    assert batch["speakers"].tolist() == [0, 1]
