"""Make loaders for the subject's dataset, with batches of one sample and prepared workers."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, get_worker_info

from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation.foreign import is_a
from dltutor.observation.worker_init import InWorker, WorkerInit, own_init

TIMEOUT: Final = 3.0  # seconds after which a worker counts as hanging
_hung: list[Any] = []  # iterators to keep, because freeing one takes seconds


def prepared(subject: Subject, prepare: InWorker) -> WorkerInit:
    """Return a `worker_init_fn` that prepares a forked worker to draw samples.

    If the loader's own workers aren't forked, they get a pickled copy of the dataset. So the forked
    worker then also replaces the dataset's attributes with unpickled copies.

    Args:
        subject: The loader, whose own `worker_init_fn` runs before `prepare`.
        prepare: A function to call with the worker's number.
    """
    travels = subject.method in ("spawn", "forkserver")
    before = partial(_as_if_pickled, subject.dataset) if travels else None
    return WorkerInit(own_init(subject.inner), before=before, after=prepare)


def where_samples_are_drawn(subject: Subject, prepare: InWorker) -> None:
    """Prepare each process that draws samples: forked workers or, if there are none, this one.

    Args:
        subject: The loader. If its sampler has an attribute `generator`, the sampler gets a new
            generator with a fixed seed.
        prepare: A function to call with the worker's number, or with 0 in this process.
    """
    subject.seed_sampler()
    if subject.inner.num_workers:
        init = prepared(subject, prepare)
        subject.change(method="fork", worker_init_fn=init)
    else:
        prepare(0)


def _as_if_pickled(dataset: Any, worker: int) -> None:
    # A worker that isn't forked gets a pickled copy of the dataset, so make such a copy here.
    with suppress(Exception):
        pickled, shared = io.BytesIO(), list[torch.Tensor]()
        _Pickler(pickled, shared).dump(dataset)
        pickled.seek(0)
        copy = _Unpickler(pickled, shared).load()
        dataset.__dict__.clear()
        dataset.__dict__.update(copy.__dict__)


class _Pickler(pickle.Pickler):
    # Leave out tensors in shared memory, because a worker gets the same memory, not a copy.
    def __init__(self, file: io.BytesIO, shared: list[torch.Tensor]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_id(self, thing: Any) -> int | None:
        if not is_a(thing, torch.Tensor) or not thing.is_shared():
            return None
        self.shared.append(thing)
        return len(self.shared) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[torch.Tensor]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, number: int) -> torch.Tensor:
        return self.shared[number]


def tagged(samples: Any) -> tuple[int, str]:
    """Collate samples into a tuple of the worker's number (-1 for main) and the samples' digest."""
    info = get_worker_info()
    return (info.id if info else -1), digest(samples)


def small_loader(
    subject: Subject,
    prepare: Callable[[int], None],
    *,
    workers: int,
    indices: Iterable[Any] | None = None,
    collate: Callable[[Any], Any] = tagged,
    prefetch: int = 2,
    persistent: bool = False,
) -> DataLoader[Any]:
    """Make a loader with batches of one sample and with forked workers.

    Args:
        subject: The loader under test, which provides dataset, worker_init_fn, and generator.
        prepare: A function to call in each worker after the user's own worker_init_fn.
        workers: How many workers to start, at least one.
        indices: The samples to draw, dealt out to the workers in turn, or None for a stream.
        collate: The collate function, which gets one sample in a list (default `tagged`).
        prefetch: How many samples each worker draws ahead (default 2).
        persistent: Whether the workers stay between epochs (default False).
    """
    return DataLoader(
        subject.dataset,
        batch_size=1,
        sampler=None if indices is None else list(indices),
        num_workers=workers,
        collate_fn=collate,
        worker_init_fn=prepared(subject, prepare),
        multiprocessing_context="fork",
        prefetch_factor=prefetch,
        persistent_workers=persistent,
        timeout=TIMEOUT,
        generator=subject.inner.generator,
    )


def answers(loader: DataLoader[Any], seconds: float, most: int = 100_000) -> Iterator[Any]:
    """Yield each batch from a small loader, or the exception that the loader raised instead.

    Stop after the last batch, or if a worker hung or died.

    Args:
        loader: A loader from `small_loader`.
        seconds: After how many seconds to stop.
        most: How many answers to yield, at most (default 100,000).
    """
    iterator = iter(loader)
    for _ in in_time(range(most), seconds):
        try:
            yield next(iterator)
        except StopIteration:
            return
        except Exception as error:
            yield error
            if "timed out" in str(error) or "exited unexpectedly" in str(error):
                _hung.append(iterator)
                return
