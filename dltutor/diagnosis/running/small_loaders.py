"""Small loaders of the subject's dataset, one sample at a time, with workers that are prepared."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from torch.utils.data import DataLoader, get_worker_info

from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.running.subject import Subject

TIMEOUT: Final = 3.0  # seconds after which a worker counts as hanging
_hung: list[Any] = []  # iterators: without them, torch waits seconds for each of their workers


class Prepared:
    """A worker_init_fn: the user's own, then what the experiment needs in a worker.

    Args:
        subject: Its `worker_init_fn` is called first, as in a real worker.
        prepare: Called with the worker's number.
    """

    def __init__(self, subject: Subject, prepare: Callable[[int], None]) -> None:
        self.subject, self.prepare = subject, prepare
        self.init = subject.inner.worker_init_fn
        self.travels = subject.method in ("spawn", "forkserver")

    def __call__(self, worker: int) -> None:
        if self.travels:
            _as_if_pickled(self.subject.dataset)
        if self.init is not None:
            self.init(worker)
        self.prepare(worker)


def _as_if_pickled(dataset: Any) -> None:
    # A worker that is not forked has what pickle makes of the dataset.
    with suppress(Exception):
        copy = pickle.loads(pickle.dumps(dataset))
        dataset.__dict__.clear()
        dataset.__dict__.update(copy.__dict__)


def tagged(samples: Any) -> tuple[int, str]:
    """A collate function: who drew it, and what it holds."""
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
    """A loader of one sample at a time.

    Args:
        subject: Its dataset, worker_init_fn and generator are used.
        prepare: Called in each worker after the user's own worker_init_fn.
        workers: How many.
        indices: What is drawn, dealt out in turn; None for a stream.
        collate: What becomes of each.
        prefetch: How many samples each worker draws ahead.
        persistent: Whether the workers stay between epochs.
    """
    return DataLoader(
        subject.dataset,
        batch_size=1,
        sampler=None if indices is None else list(indices),
        num_workers=workers,
        collate_fn=collate,
        worker_init_fn=Prepared(subject, prepare),
        multiprocessing_context="fork",
        prefetch_factor=prefetch,
        persistent_workers=persistent,
        timeout=TIMEOUT,
        generator=subject.inner.generator,
    )


def answers(loader: DataLoader[Any], seconds: float, most: int = 100_000) -> Iterator[Any]:
    """What a small loader delivers; an exception in its place where a sample raised.

    Args:
        loader: As `small_loader` makes it.
        seconds: After these no more is taken.
        most: How many at most.
    """
    until = time.monotonic() + seconds
    iterator = iter(loader)
    for _ in range(most):
        try:
            yield next(iterator)
        except StopIteration:
            return
        except Exception as error:
            yield error
            if "timed out" in str(error) or "exited unexpectedly" in str(error):
                _hung.append(iterator)
                return
        if time.monotonic() > until:
            return
