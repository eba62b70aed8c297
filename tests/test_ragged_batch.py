"""Which text a ragged batch gives depends on its first sample and on the workers."""

from __future__ import annotations

import pytest
import torch

from dltutor.failures import ragged_batch
from dltutor.failures.ragged_batch import First, collate_clips
from dltutor.observation import observe
from dltutor.observation.texts import said

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

RESIZE = "RuntimeError: Trying to resize storage that is not resizable"
STACK = "RuntimeError: stack expects each tensor to be equal size"


@pytest.mark.parametrize(
    ("first", "workers", "told"),
    [("long", 2, RESIZE), ("short", 2, STACK), ("long", 0, STACK), ("short", 0, STACK)],
)
def test_what_is_said_depends_on_the_first_sample_and_on_the_workers(
    first: First, workers: int, told: str
) -> None:
    [(kind, message)] = observe(ragged_batch.broken(workers=workers, first=first).loader).chain
    assert said(kind, message).startswith(told)


@pytest.mark.parametrize("first", ["long", "short"])
def test_padded_either_order_is_delivered(first: First) -> None:
    observation = observe(ragged_batch.fixed(first=first).loader)
    assert (observation.end, observation.samples) == ("finished", 16)


def test_the_lengths_tell_padding_from_sound() -> None:
    batch = collate_clips([(torch.ones(3), 0), (torch.ones(2), 1)])
    assert batch["sounds"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["lengths"].tolist() == [3, 2]
    assert batch["speakers"].tolist() == [0, 1]
