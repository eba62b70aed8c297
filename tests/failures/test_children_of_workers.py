"""Test that a worker may start programs and threads, but no `multiprocessing` processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from datasets import Numbers, load

from dltutor.observation import observe


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


@pytest.mark.parametrize("start", [executor, loader_in_worker])
def test_a_worker_may_not_start_processes_of_multiprocessing(start: Callable[[], object]) -> None:
    observation = observe(load(Numbers(start)), deadline=20)
    assert (observation.end, observation.raised_in_worker) == ("raised", "AssertionError")
    assert "daemonic processes are not allowed to have children" in observation.chain[0][1]


@pytest.mark.parametrize("start", [program, thread])
def test_a_worker_may_start_programs_and_threads(start: Callable[[], object]) -> None:
    assert observe(load(Numbers(start)), deadline=20).end == "finished"
