"""What a worker may start, and what it may not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import torch
from datasets import Numbers, load

from dltutor.failures import children_of_workers
from dltutor.observation import observe

REFUSED = "daemonic processes are not allowed to have children"


def executor() -> None:
    with ProcessPoolExecutor(1) as pool:
        pool.submit(abs, -1).result(timeout=20)


def loader_in_worker() -> None:
    next(iter(load(Numbers())))


def program() -> None:
    subprocess.run([sys.executable, "-S", "-c", ""], check=True, timeout=20)


def thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(abs, -1).result(timeout=20)


@pytest.mark.parametrize("trouble", [executor, loader_in_worker])
def test_processes_are_refused(trouble: Callable[[], object]) -> None:
    observation = observe(load(Numbers(trouble)), deadline=20)
    assert (observation.end, observation.raised_in_worker) == ("raised", "AssertionError")
    assert REFUSED in observation.chain[0][1]


@pytest.mark.parametrize("start", [program, thread])
def test_programs_and_threads_are_not(start: Callable[[], object]) -> None:
    assert observe(load(Numbers(start)), deadline=20).end == "finished"


def test_without_workers_the_pool_works_and_gives_the_same() -> None:
    ours = list(children_of_workers.broken(workers=0).loader)
    theirs = list(children_of_workers.fixed(workers=0).loader)
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
