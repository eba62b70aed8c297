"""Test that objects frozen by `frozen_heap` stay frozen in forked workers, but not in main."""

from __future__ import annotations

import gc

import pytest
import torch
from small_datasets import Numbers, load

from dltutor.failures.gc_dirties_pages import frozen_heap


class Frozen(Numbers):
    """A dataset whose samples are the number of frozen objects in the process."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(gc.get_freeze_count())


def test_only_workers_forked_in_the_block_keep_what_it_froze() -> None:
    gc.unfreeze()  # some versions of Python start with a few hundred frozen objects
    with frozen_heap():
        iterator = iter(load(Frozen(), num_workers=1))
    assert gc.get_freeze_count() == 0
    assert min(int(batch.min()) for batch in iterator) > 10_000
    assert {int(value) for batch in load(Frozen(), num_workers=1) for value in batch} == {0}


def test_the_heap_is_not_left_frozen_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), frozen_heap():
        _ = 1 / 0
    assert gc.get_freeze_count() == 0
