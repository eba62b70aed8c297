"""Test how much a stream loses if `drop_last` applies to each worker, or only once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dltutor.failures import lost_tail
from dltutor.failures.lost_tail import BATCH, LENGTH, BatchedStream
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def lost(case: Case) -> float:
    finding: Any = observe(case.loader, consume=case.consume).result
    return float(finding.value)


@pytest.mark.parametrize(("workers", "samples"), [(1, 0), (3, 0), (4, LENGTH)])
def test_what_is_lost_depends_on_the_number_of_workers(workers: int, samples: int) -> None:
    assert lost(lost_tail.broken(workers=workers)) == samples
    assert lost(lost_tail.fixed(workers=workers)) == 0


def test_an_unfinished_batch_at_the_end_is_dropped_once() -> None:
    batches = list(BatchedStream(LENGTH + BATCH - 1))
    assert torch.cat(batches).tolist() == list(range(LENGTH))
