"""A batch is a list of many small tensors, and sending them takes longer than making them.

Symptom: with workers the epoch is many times slower than with none. The workers are busy, the GPU
waits, and a profile of main shows `rebuild_storage_fd`, `recv_handle`, and sockets.

NOTE [ The Price of a Tensor ]

A tensor travels in three parts: a message with its shape and its stride, a segment of shared memory
that the worker makes, and a descriptor for it. To get the descriptor, main connects to the worker's
socket, asks, and gets an answer. That takes a few tenths of a millisecond for any tensor, from one
number to a million. With three tensors in a batch, you don't notice. With 128 sentences, each its
own tensor, you pay 128 times. The same goes for objects with tensors as attributes, nested dicts of
tensors, and lists of boxes.

Fix: in `collate_fn`, make one packed tensor with offsets for each kind of thing. The model may
take that as it is (`torch.nn.EmbeddingBag`, nested tensors). Otherwise, `torch.tensor_split` gives
you the pieces back in the loop, as views, at almost no cost. Or pad to one rectangle.

Seen in: pytorch#123439, pytorch#11201, rf-detr#1399.
"""

from __future__ import annotations

import time
from typing import Any

from torch.utils.data import DataLoader

from dltutor.failures.data.sentences import Sentences, as_list, packed
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load

BATCH = 128
BATCHES = 12


def time_a_batch(loader: DataLoader[Any]) -> Finding:
    """Time the average batch of the second epoch, because the first one starts the workers."""
    for _ in loader:
        pass
    began = time.perf_counter()
    for _ in loader:
        pass
    seconds = time.perf_counter() - began
    return Finding(1000 * seconds / BATCHES, "ms for a batch")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose batches have a tensor for each sentence."""
    return _case(workers, start_method, collate_fn=as_list)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose batches have one tensor for the words of all sentences."""
    return _case(workers, start_method, collate_fn=packed)


def _case(workers: int, start_method: str, **options: Any) -> Case:
    options |= {"batch_size": BATCH, "persistent_workers": True}
    return Case(load(Sentences(BATCH * BATCHES), workers, start_method, **options), time_a_batch)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(4))
