"""The frozen heap is frozen in the workers, and in main only while they are forked."""

from __future__ import annotations

import gc

import pytest
import torch
from datasets import Numbers, load
from fresh_interpreter import run_fresh

from dltutor.failures import gc_dirties_pages
from dltutor.failures.gc_dirties_pages import frozen_heap


class Frozen(Numbers):
    """How many objects the collector leaves alone in this process."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(gc.get_freeze_count())


def test_workers_forked_in_the_block_keep_what_it_froze() -> None:
    with frozen_heap():
        iterator = iter(load(Frozen()))
    assert gc.get_freeze_count() == 0
    assert min(int(batch.min()) for batch in iterator) > 10_000


def test_the_heap_is_not_left_frozen_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), frozen_heap():
        _ = 1 / 0
    assert gc.get_freeze_count() == 0


def test_workers_forked_otherwise_have_nothing_frozen() -> None:
    gc.unfreeze()  # some Pythons start with a few hundred objects frozen
    assert {int(value) for batch in load(Frozen()) for value in batch} == {0}


def test_a_freeze_in_main_does_not_reach_workers_that_are_not_forked_from_it() -> None:
    with frozen_heap():
        iterator = iter(load(Frozen(), "forkserver"))
    at_first = int(run_fresh("import gc; print(gc.get_freeze_count())").stdout)  # not 0 everywhere
    assert {int(value) for batch in iterator for value in batch} == {at_first}


@pytest.mark.thorough  # two runs more
def test_broken_and_fixed_deliver_the_same_samples() -> None:
    both = gc_dirties_pages.broken().loader, gc_dirties_pages.fixed(workers=0).loader
    assert all(map(torch.equal, *both))
