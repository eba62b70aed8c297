"""Test that shared memory fills up to `workers * prefetch_factor + 1` batches."""

from __future__ import annotations

import pytest
from datasets import load

from dltutor.failures import prefetch_budget
from dltutor.failures.prefetch_budget import budget, train
from dltutor.failures.tools.gauge import no_proc
from dltutor.tables import MB

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


@pytest.mark.parametrize(("workers", "prefetch_factor"), [(1, 2), (2, 8)])
def test_the_most_that_is_held_is_the_budget(workers: int, prefetch_factor: int) -> None:
    dataset = prefetch_budget.broken().loader.dataset
    loader = load(dataset, batch_size=4, num_workers=workers, prefetch_factor=prefetch_factor)
    bound = budget(loader, batch=4 * 60_000 * 4)
    assert bound == (workers * prefetch_factor + 1) * 960_000
    assert train(loader).value == pytest.approx(bound / MB, rel=0.01)
