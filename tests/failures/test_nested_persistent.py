"""Test that nested loops over a loader lose nothing without persistent workers."""

from __future__ import annotations

from torch.utils.data import DataLoader

from dltutor.failures import nested_persistent
from dltutor.failures.nested_persistent import with_itself


def test_without_persistent_workers_no_block_is_missing() -> None:
    loader = nested_persistent.broken().loader
    plain = DataLoader(loader.dataset, batch_size=loader.batch_size, num_workers=2)
    assert with_itself(plain).value == 0
