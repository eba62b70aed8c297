"""Test that each tensor of a batch takes up a descriptor in main."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import shared_memory_open
from torch.utils.data import DataLoader

from dltutor.failures import Case, tiny_tensors
from dltutor.failures.tiny_tensors import BATCH
from dltutor.observation import observe

pytestmark = pytest.mark.timeout(60, method="thread")


def shared_memory_held(case: Case) -> Any:
    """Return how many descriptors for torch's shared memory main holds for one batch."""

    def hold(loader: DataLoader[Any]) -> int:
        before = shared_memory_open()  # descriptors from earlier tests
        batch = next(iter(loader))
        held = shared_memory_open() - before
        del batch
        return len(held)

    return observe(case.loader, consume=hold).result


def test_each_tensor_of_a_batch_is_a_descriptor() -> None:
    # With two workers, main may also hold W1's batch, if that batch arrived first.
    assert shared_memory_held(tiny_tensors.broken(workers=1)) == BATCH + 1
    assert shared_memory_held(tiny_tensors.fixed(workers=1)) == 3
