"""Test which batches can't be pickled, and which of them main can find in advance."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
import torch
from small_datasets import as_list
from torch.utils.data import DataLoader

from dltutor.failures import unpicklable_batch
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


LOCKS: Any = [threading.Lock()] * 16
WITH_GRAD: Any = [torch.ones(2, requires_grad=True) * number for number in range(16)]


def pickle_one(loader: DataLoader[Any]) -> None:
    assert loader.collate_fn is not None
    pickle.dumps(loader.collate_fn([loader.dataset[0]]))


def test_main_can_find_out_beforehand_unless_it_is_a_tensor_that_requires_grad() -> None:
    with pytest.raises(TypeError, match=r"cannot pickle 'sqlite3\.Row' object"):
        pickle_one(unpicklable_batch.broken().loader)
    pickle_one(unpicklable_batch.fixed().loader)
    pickle_one(DataLoader(WITH_GRAD, collate_fn=as_list))


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (LOCKS, "cannot pickle '_thread.lock' object"),
        (WITH_GRAD, "Cowardly refusing to serialize non-leaf tensor which requires_grad"),
    ],
)
def test_other_things_that_a_batch_of_ones_own_may_hold(samples: Any, told: str) -> None:
    loader = DataLoader(
        samples, num_workers=1, collate_fn=as_list, multiprocessing_context="fork", timeout=0.5
    )
    observation = observe(loader)
    timed_out = ("RuntimeError", "DataLoader timed out after 0.5 seconds")
    assert observation.chain[:1] == (timed_out,), observation
    assert told in observation.stderr
