"""Test that workers hang without main's thread, and that only the fixed dataset can be pickled."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest
import torch
from small_datasets import load
from torch.utils.data import IterableDataset

from dltutor.failures import lost_thread
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.observation import observe


class ReadAhead(IterableDataset[int]):
    """A stream of numbers, with a thread that keeps the next four ready."""

    def __init__(self) -> None:
        self.ready: Queue[int] = Queue(maxsize=4)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for number in range(16):
            self.ready.put(number)

    def __iter__(self) -> Iterator[int]:
        for _ in range(16):
            yield self.ready.get()


def test_from_a_queue_every_worker_gets_what_was_ready_and_then_nothing() -> None:
    dataset = ReadAhead()
    while not dataset.ready.full():
        time.sleep(0.001)
    got: list[int] = []

    def loop(loader: Any) -> None:
        for batch in loader:
            got.extend(batch.tolist())

    observation = observe(load(dataset, batch_size=4), consume=loop, deadline=3)
    assert (observation.end, got) == ("hung", [0, 1, 2, 3, 0, 1, 2, 3])
    for worker in observation.workers:
        assert worker.stack and "self.ready.get()" in worker.stack[0].code
    while dataset.reader.is_alive():
        dataset.ready.get()
        dataset.reader.join(0.01)


def test_the_fixed_dataset_can_be_sent_after_use_and_the_broken_one_cannot() -> None:
    dataset: Any = lost_thread.fixed(workers=0).loader.dataset
    used = dataset[3]
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[3], used)
    # In Python 3.14 and later, pickle first fails on a function that the executor holds.
    told = r"cannot pickle '_queue\.SimpleQueue'|Can't pickle local object <function WorkerContext"
    with pytest.raises((TypeError, pickle.PicklingError), match=told):
        pickle.dumps(Pairs(pairs_folder()))
