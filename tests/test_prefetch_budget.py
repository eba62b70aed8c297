"""What lies in shared memory is the budget: workers times prefetch factor, and one."""

from __future__ import annotations

import pytest

from dltutor.failures import prefetch_budget
from dltutor.failures.prefetch_budget import budget
from dltutor.failures.tools.gauge import no_proc
from dltutor.tables import MB

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


@pytest.mark.parametrize(("workers", "prefetch_factor"), [(1, 2), (2, 2), (2, 8), (1, 16)])
def test_the_most_that_is_held_is_the_budget(workers: int, prefetch_factor: int) -> None:
    case = prefetch_budget.broken(workers=workers, prefetch_factor=prefetch_factor)
    bound = budget(case.loader, batch=4 * 60_000 * 4)
    assert bound == (workers * prefetch_factor + 1) * 960_000
    assert case.consume is not None
    found = case.consume(case.loader)
    assert found.value == pytest.approx(bound / MB, rel=0.01)


def test_there_are_more_batches_than_may_be_loaded_ahead() -> None:
    loader = prefetch_budget.broken().loader
    assert len(loader) > budget(loader, batch=1)
