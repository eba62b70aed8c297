"""Test how often a tensor that a dataset holds moves to shared memory."""

from __future__ import annotations

import pytest
import torch
from small_datasets import Numbers, load

from dltutor.failures.tools.gauge import Gauge, no_proc
from dltutor.tables import MB

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


class Rows(Numbers):
    """A dataset of the rows of a 4 MB tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.zeros(16, 62_500)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]


@pytest.mark.parametrize(("start_method", "tensors"), [("fork", 2), ("forkserver", 1)])
def test_a_tensor_of_the_dataset_moves_to_shared_memory_once_for_each_forked_worker(
    start_method: str, tensors: int
) -> None:
    gauge = Gauge()
    rows = list(load(Rows(), start_method, batch_size=None))
    assert sum(row.nbytes for row in rows) == 4_000_000
    assert gauge.shared() == pytest.approx(tensors * 4e6 / MB, rel=0.01)
