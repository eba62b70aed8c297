"""Test which batches can't be pickled, and which of them main can find in advance."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_datasets import Numbers, as_list
from torch.utils.data import DataLoader

from dltutor.failures import unpicklable_batch
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


class Made(Numbers):
    """A dataset whose samples are what `make` returns for the index."""

    def __init__(self, make: Callable[[float], Any]) -> None:
        super().__init__()
        self.make = make

    def __getitem__(self, index: int) -> Any:
        return self.make(float(index))


def lock(number: float) -> Any:
    return threading.Lock()


def with_grad(number: float) -> torch.Tensor:
    return torch.ones(2, requires_grad=True) * number


def pickle_one(loader: DataLoader[Any]) -> None:
    assert loader.collate_fn is not None
    pickle.dumps(loader.collate_fn([loader.dataset[0]]))


def test_main_can_find_out_beforehand_unless_it_is_a_tensor_that_requires_grad() -> None:
    with pytest.raises(TypeError, match=r"cannot pickle 'sqlite3\.Row' object"):
        pickle_one(unpicklable_batch.broken().loader)
    pickle_one(unpicklable_batch.fixed().loader)
    pickle_one(DataLoader(Made(with_grad), collate_fn=as_list))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lock, "cannot pickle '_thread.lock' object"),
        (with_grad, "Cowardly refusing to serialize non-leaf tensor which requires_grad"),
    ],
)
def test_other_things_that_a_batch_of_ones_own_may_hold(
    make: Callable[[float], Any], told: str
) -> None:
    loader = DataLoader(
        Made(make), num_workers=1, collate_fn=as_list, multiprocessing_context="fork", timeout=0.5
    )
    observation = observe(loader)
    timed_out = ("RuntimeError", "DataLoader timed out after 0.5 seconds")
    assert observation.chain[:1] == (timed_out,), observation
    assert told in observation.stderr
