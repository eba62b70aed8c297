"""What is slow is the number of tensors, and only with workers."""

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
    """How many descriptors of torch's shared memory main holds for a batch."""

    def hold(loader: DataLoader[Any]) -> int:
        before = shared_memory_open()  # by tests that ran here before
        batch = next(iter(loader))
        held = shared_memory_open() - before
        del batch
        return len(held)

    return observe(case.loader, consume=hold).result


def test_each_tensor_of_a_batch_is_a_descriptor() -> None:
    # With two workers main may hold the second one's batch as well, if it came first.
    assert shared_memory_held(tiny_tensors.broken(workers=1)) == BATCH + 1
    assert shared_memory_held(tiny_tensors.fixed(workers=1)) == 3
