"""What is slow is the number of tensors, and only with workers."""

from __future__ import annotations

import os

import pytest

from dltutor.failures import Case, tiny_tensors
from dltutor.failures.tiny_tensors import BATCH

pytestmark = pytest.mark.timeout(60, method="thread")


def cost(case: Case) -> float:
    return case.consume(case.loader).value


def shared_memory_held(case: Case) -> int:
    """How many descriptors of torch's shared memory main holds together with a batch."""
    batch = next(iter(case.loader))  # the workers end here: what they had prefetched is gone
    links = [f"/dev/fd/{number}" for number in os.listdir("/dev/fd")]
    held = sum("/torch_" in os.readlink(link) for link in links if os.path.islink(link))
    del batch
    return held


def test_each_tensor_of_a_batch_is_a_descriptor() -> None:
    assert shared_memory_held(tiny_tensors.broken()) == BATCH + 1
    assert shared_memory_held(tiny_tensors.fixed()) == 3
