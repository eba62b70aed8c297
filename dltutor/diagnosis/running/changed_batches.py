"""Change batches in the worker that made them, before it sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.data
from torch.utils._pytree import tree_map
from torch.utils.data._utils import fetch

from dltutor.diagnosis.running.subject import Subject

Fetch = Callable[[Any, Any], Any]


def with_tensors(subject: Subject, change: Callable[[torch.Tensor], Any]) -> None:
    """Fork all workers from now on, and have them change each tensor in the batches they make.

    Args:
        subject: The loader whose batches to change.
        change: A function that takes a tensor and returns what to send instead.
    """

    def changed(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def fetched(own: Fetch, fetcher: Any, index: Any) -> Any:
        if not isinstance(fetcher.collate_fn, _InOrdinaryMemory):
            fetcher.collate_fn = _InOrdinaryMemory(fetcher.collate_fn)
        return tree_map(changed, own(fetcher, index))

    subject.change(method="fork")
    subject.in_workers(lambda worker: wrap_fetches(fetched))


def wrap_fetches(fetched: Callable[[Fetch, Any, Any], Any]) -> None:
    """Have `fetched` make each batch in this worker from now on.

    Args:
        fetched: A function that takes torch's own `fetch` method, the fetcher, and the index or
            indices, and returns the batch.
    """

    def wrapped(own: Fetch) -> Fetch:
        return lambda fetcher, index: fetched(own, fetcher, index)

    classes: tuple[Any, ...] = (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher)
    for cls in classes:
        cls.fetch = wrapped(cls.fetch)


class _InOrdinaryMemory:
    """A wrapper that makes a collate function work as if it were in main.

    In a worker, torch's own collate function would make the batch in shared memory.
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Any:
        own = torch.utils.data.get_worker_info
        torch.utils.data.get_worker_info = lambda: None
        try:
            return self.collate(samples)
        finally:
            torch.utils.data.get_worker_info = own
