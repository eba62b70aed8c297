"""Test that torch gives each worker one thread, and that a worker_init_fn undoes that."""

from __future__ import annotations

import os

import torch
from datasets import Numbers, load

from dltutor.failures.oversubscribed import use_every_core


class Threads(Numbers):
    """A dataset whose samples are the number of threads that torch computes with."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(torch.get_num_threads())


def test_torch_gives_a_worker_one_thread_and_the_init_function_one_for_each_core() -> None:
    as_it_is = load(Threads(), num_workers=1)
    changed = load(Threads(), num_workers=1, worker_init_fn=use_every_core)
    threads = [torch.cat(list(loader)).unique().tolist() for loader in (as_it_is, changed)]
    assert threads == [[1], [os.cpu_count()]]
