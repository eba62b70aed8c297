"""Read the settings of a learner's loader, and measure one of its batches."""

from __future__ import annotations

import math
import mmap
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.observation.budget.prediction import Footprint, Settings
from dltutor.observation.budget.usage import Lookout
from dltutor.observation.foreign import attribute, elements, has, is_a
from dltutor.observation.loaders import check_loader
from dltutor.observation.observing import observe
from dltutor.observation.texts import said, tidy
from dltutor.observation.throughput import with_workers
from dltutor.system.this_machine import default_start_method

_TORCHS_DEFAULT: Final = 2  # torch's prefetch_factor if there are workers and you don't set it


@dataclass(frozen=True)
class Batch:
    """The measurements for one batch from one worker. Sizes are in bytes.

    Args:
        samples: How many samples are in the batch. If unknown, this is the loader's batch size, or
            1 if the loader has none.
        bytes: The size of the batch's tensors in shared memory, each in whole pages.
        worker: The worker's highest USS, which includes the samples, or 0 if we couldn't read it.
    """

    samples: int
    bytes: int
    worker: int


def measure_batch(loader: DataLoader[Any], deadline: float) -> Batch:
    """Have one worker make a batch within `deadline` seconds, and measure the batch and the worker.

    The worker starts with the loader's start method and makes at most two batches, so this works
    even if the loader itself would use too much memory.

    Raises:
        ValueError: The run failed or returned no batch, the batch had no tensor, or the deadline is
            out of range.
        RuntimeError: This isn't the main thread.
    """
    one_worker = with_workers(loader, 1)
    one_worker.prefetch_factor = 1
    seen = observe(one_worker, consume=_measure_first, deadline=deadline, often=True)
    if seen.end != "finished":
        error = f" ({tidy(said(*seen.chain[-1]))})" if seen.end == "raised" else ""
        raise ValueError(
            "loader must return a batch that can be measured. A run for one batch, with one "
            f"worker, ended like this: {seen.story().title}{error}. observe(loader) shows more"
        )
    if seen.batches == 0:
        raise ValueError("loader must return a batch that can be measured, but it's empty")
    assert isinstance(seen.result, int)
    if seen.result == 0:
        raise ValueError(
            "loader must return batches with tensors, because anything else goes through a pipe "
            "and takes up no shared memory"
        )
    worker = seen.timeline.peak("uss", "W0")
    samples = seen.samples or loader.batch_size or 1
    return Batch(samples, seen.result, 0 if math.isnan(worker) else int(worker))


def settings_of(loader: DataLoader[Any], batch: Batch, **changed: Any) -> Settings:
    """Return a loader's settings, with those in `changed` instead of its own.

    The batch size and the size of a sample come from `batch`.

    Raises:
        TypeError: `observe` doesn't take this object as a loader.
        ValueError: A setting is out of range.
    """
    check_loader(loader)
    context = loader.multiprocessing_context
    own: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor or _TORCHS_DEFAULT,
        "batch_size": batch.samples,
        "sample_bytes": -(-batch.bytes // batch.samples),
        "start_method": context.get_start_method() if context else default_start_method(),
    }
    return Settings(**own | changed)


def own_footprint(synthetic: Footprint, batch: Batch) -> Footprint:
    """Return `synthetic`, with at least main's current memory and `batch.worker` for a worker."""
    main = max(synthetic.main, Lookout().look(set()).processes)
    return replace(synthetic, main=main, worker=max(synthetic.worker, batch.worker))


def tensor_bytes(batch: object) -> int:
    """Return how many bytes a batch's tensors take up in shared memory.

    Each tensor's whole storage counts, in whole pages, even if the tensor is a view of a part of
    the storage. A storage that several tensors share counts once.
    """
    storages = {}
    for tensor in _tensors(batch):
        with suppress(Exception):  # a sparse tensor has no storage, and a subclass may raise
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = -(-storage.nbytes() // mmap.PAGESIZE) * mmap.PAGESIZE
    return sum(storages.values())


def _tensors(thing: object) -> Iterator[torch.Tensor]:
    waiting: deque[Any] = deque([thing])
    seen: dict[int, Any] = {}  # keep the objects, because Python reuses a freed object's id
    while waiting:
        each = waiting.popleft()
        if is_a(each, torch.Tensor):
            yield each
        elif id(each) not in seen and is_a(each, (Mapping, list, tuple)):
            seen[id(each)] = each
            waiting.extend(part for _, part in elements(each))
        elif id(each) not in seen and has(type(each), "__dataclass_fields__"):
            seen[id(each)] = each
            waiting.extend(attribute(each, field.name) for field in fields(type(each)))


def _measure_first(loader: DataLoader[Any]) -> int:
    for batch in loader:
        return tensor_bytes(batch)
    return 0
