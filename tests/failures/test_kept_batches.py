"""Test how much memory a view, a copy, or a number keeps, and that views keep descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from datasets import load, shared_memory_open
from torch.utils.data import Subset

from dltutor.failures.kept_batches import Images
from dltutor.failures.tools.gauge import Gauge, no_proc
from dltutor.tables import MB

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))

BATCH = 16 * 3 * 64 * 64 * 4
LABELS = 16 * 8
FEW = Subset(Images(), range(64))


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (lambda images, labels: images[0], BATCH),
        (lambda images, labels: images[0].numpy(), BATCH),
        (lambda images, labels: labels[0], LABELS),
        (lambda images, labels: images[0].clone(), 0),
        (lambda images, labels: images[0, 0, 0, 0].item(), 0),
    ],
)
def test_what_is_kept_of_a_batch(
    keep: Callable[[torch.Tensor, torch.Tensor], Any], kept: int
) -> None:
    gauge = Gauge()
    examples = []
    for images, labels in load(FEW, batch_size=16):
        examples.append(keep(images, labels))
    del images, labels
    assert gauge.shared() == pytest.approx(len(examples) * kept / MB, rel=0.01)


def test_every_tensor_kept_costs_a_descriptor() -> None:
    before = shared_memory_open()
    examples = [(images[0], labels[0]) for images, labels in load(FEW, batch_size=16)]
    assert len(shared_memory_open() - before) == 2 * len(examples)
