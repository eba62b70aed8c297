"""A view that is sent brings its whole storage; a clone, or default_collate, does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from datasets import Numbers, load

from dltutor.failures import view_of_a_giant
from dltutor.failures.tools.gauge import Gauge, no_proc
from dltutor.failures.view_of_a_giant import WINDOW
from dltutor.tables import MB

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


class Rows(Numbers):
    """The rows of a tensor of 4 MB, held by the dataset."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.zeros(16, 62_500)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]


@pytest.mark.parametrize(
    ("make", "storage"),
    [(view_of_a_giant.broken, 500_000 * 2), (view_of_a_giant.fixed, WINDOW * 2)],
)
def test_the_storage_that_arrives_tells_a_view_from_a_copy(
    make: Callable[[], view_of_a_giant.Case], storage: int
) -> None:
    excerpt = next(iter(make().loader))
    assert excerpt.nbytes == WINDOW * 2
    assert excerpt.untyped_storage().nbytes() == storage


def test_views_and_copies_hold_the_same_numbers() -> None:
    broken, fixed = view_of_a_giant.broken().loader, view_of_a_giant.fixed().loader
    assert all(map(torch.equal, broken, fixed))


def test_default_collate_copies_what_it_joins() -> None:
    gauge = Gauge()
    batch = next(iter(load(Rows())))
    assert batch.untyped_storage().nbytes() == batch.nbytes
    del batch
    assert gauge.shared() == 0


def test_a_tensor_of_the_dataset_is_moved_to_shared_memory_once_for_each_forked_worker() -> None:
    gauge = Gauge()
    rows = list(load(Rows(), batch_size=None))
    assert sum(row.nbytes for row in rows) == 4_000_000
    assert gauge.shared() == pytest.approx(2 * 4e6 / MB, rel=0.01)


def test_a_tensor_of_the_dataset_is_in_shared_memory_already_where_it_is_pickled() -> None:
    gauge = Gauge()
    rows = list(load(Rows(), "forkserver", batch_size=None))
    assert len(rows) == 16
    assert gauge.shared() == pytest.approx(4e6 / MB, rel=0.01)
