"""One iterator for two loops, and only with persistent workers."""

from __future__ import annotations

import pytest
from torch.utils.data import DataLoader

from dltutor.failures import nested_persistent
from dltutor.failures.nested_persistent import BATCHES, with_itself
from dltutor.observation import observe

pytestmark = pytest.mark.timeout(60, method="thread")


def test_the_outer_loop_ends_after_its_first_batch_and_nothing_is_said() -> None:
    case = nested_persistent.broken()
    seen = observe(case.loader, consume=case.consume)
    assert (seen.end, seen.chain, seen.stderr) == ("finished", (), "")
    assert str(seen.result) == "12 of 16 blocks missing"
    assert seen.batches == 1 + BATCHES


def test_both_loops_have_the_same_iterator() -> None:
    loader = nested_persistent.broken().loader
    assert iter(loader) is iter(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_without_persistent_workers_no_block_is_missing(workers: int) -> None:
    loader = nested_persistent.broken(workers=workers).loader
    plain = DataLoader(loader.dataset, batch_size=loader.batch_size, num_workers=workers)
    assert with_itself(plain).value == 0
