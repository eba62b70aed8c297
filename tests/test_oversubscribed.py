"""torch gives each worker one thread; a worker_init_fn takes that back."""

from __future__ import annotations

import os

import pytest
import torch
from datasets import Numbers, load

from dltutor.failures.oversubscribed import use_every_core

pytestmark = pytest.mark.timeout(100, method="thread")


class Threads(Numbers):
    """How many threads torch computes with."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(torch.get_num_threads())


def test_torch_gives_each_worker_one_thread() -> None:
    assert torch.cat(list(load(Threads()))).unique().tolist() == [1]


def test_the_init_function_gives_it_as_many_as_there_are_cores() -> None:
    threads = torch.cat(list(load(Threads(), worker_init_fn=use_every_core)))
    assert threads.unique().tolist() == [os.cpu_count()]
