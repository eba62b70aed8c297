"""drop_last in every worker, and once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from dltutor.failures import lost_tail
from dltutor.failures.lost_tail import BATCH, LENGTH, BatchedStream
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def lost(case: Case) -> float:
    finding: Any = observe(case.loader, consume=case.consume).result
    return float(finding.value)


@pytest.mark.parametrize(("workers", "samples"), [(0, 0), (1, 0), (2, 16), (3, 0), (4, LENGTH)])
def test_what_is_lost_depends_on_the_number_of_workers(workers: int, samples: int) -> None:
    assert lost(lost_tail.broken(workers=workers)) == samples
    assert lost(lost_tail.fixed(workers=workers)) == 0


def test_an_unfinished_batch_at_the_end_is_dropped_once() -> None:
    batches = list(BatchedStream(LENGTH + BATCH - 1))
    assert torch.cat(batches).tolist() == list(range(LENGTH))


def test_a_map_style_dataset_drops_once() -> None:
    loader = DataLoader(
        TensorDataset(torch.arange(LENGTH + 1)),
        batch_size=BATCH,
        drop_last=True,
        num_workers=4,
        multiprocessing_context="fork",
    )
    assert sum(len(batch) for (batch,) in loader) == LENGTH
