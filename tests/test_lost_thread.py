"""Threads that were started in main and are missing in a forked worker."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from dltutor.failures import lost_thread
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.observation import observe


def numbers_of(case: Any, deadline: float) -> tuple[str, list[int]]:
    """How the run of a case ended, and the numbers of the images that came."""
    got: list[int] = []

    def take(loader: Any) -> None:
        assert case.consume is None
        for batch in loader:
            got.extend(batch[:, 0].tolist())

    return observe(case.loader, consume=take, deadline=deadline).end, got


def test_an_executor_that_main_has_not_used_does_no_harm() -> None:
    loader = lost_thread.broken().loader
    dataset: Any = loader.dataset
    dataset.thread = ThreadPoolExecutor(max_workers=1)
    assert observe(loader, deadline=20).end == "finished"


def test_an_executor_that_main_used_again_hangs() -> None:
    loader = lost_thread.broken().loader
    dataset: Any = loader.dataset
    dataset.thread = ThreadPoolExecutor(max_workers=1)
    assert dataset[0].shape == (2, lost_thread.SIZE)
    assert observe(loader, deadline=3).end == "hung"


def test_from_a_queue_every_worker_gets_what_was_ready_and_then_nothing() -> None:
    before = set(threading.enumerate())
    case = lost_thread.broken(kind="reader")
    got: list[int] = []

    def loop(loader: Any) -> None:
        class Kept:
            dataset = loader.dataset

            def __iter__(self) -> Any:
                for batch in loader:
                    got.extend(batch[:, 0].tolist())
                    yield batch

        assert case.consume is not None
        case.consume(Kept())  # type: ignore[arg-type]

    observation = observe(case.loader, consume=loop, deadline=3)
    assert observation.end == "hung"
    assert got == [0, 1, 2, 3, 0, 1, 2, 3]
    for worker in observation.workers:
        assert worker.stack and "self.ready.get()" in worker.stack[0].code
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # it may be on its last steps
        assert not thread.is_alive(), thread


@pytest.mark.parametrize("workers", [0, 2])
def test_with_a_reader_in_each_worker_every_image_comes_once(workers: int) -> None:
    end, got = numbers_of(lost_thread.fixed(workers=workers, kind="reader"), 20)
    assert end == "finished"
    assert sorted(got) == list(range(lost_thread.PAIRS))


def test_the_mended_dataset_travels_also_after_use() -> None:
    dataset: Any = lost_thread.fixed(workers=0).loader.dataset
    used = dataset[3]
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[3], used)


def test_the_broken_one_does_not() -> None:
    # From Python 3.14 on an executor has a function of its own that pickle comes to first.
    told = r"cannot pickle '_queue\.SimpleQueue'|Can't pickle local object <function WorkerContext"
    with pytest.raises((TypeError, pickle.PicklingError), match=told):
        pickle.dumps(Pairs(pairs_folder()))
