"""Define the subject, a loader in its own process, where experiments may run and change it.

That process is a fork, so all changes to the subject disappear when the process ends.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from types import CodeType
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.running.own_locks import OwnLocks
from dltutor.diagnosis.running.random_states import seed_all
from dltutor.observation import errors
from dltutor.observation.foreign import attribute, attributes_of, has, is_a, message_of
from dltutor.observation.loaders import inner_loaders, sampler_of
from dltutor.observation.texts import tidy
from dltutor.observation.worker_init import InWorker, WorkerInit, own_init

Loop = Callable[[Any], object]


class Unanswered(Exception):
    """Raised if an experiment has no answer. The message says why."""


class Mark:
    """A number that outlives the process that writes it, to say what a dead process was doing."""

    def __init__(self) -> None:
        self._numbers = memoryview(mmap.mmap(-1, 16)).cast("q")  # the last number, and `times`
        self._numbers[0] = -1

    def set(self, number: int) -> None:
        """Write a number, such as the index of the next sample."""
        self._numbers[0] = number
        self._numbers[1] += 1

    @property
    def times(self) -> int:
        """How many times a number was written."""
        return self._numbers[1]

    def get(self) -> int:
        """Return the number that was written last, or -1 if there's none."""
        return self._numbers[0]


@dataclass
class Subject:
    """A loader with its training loop, and methods that read or change the loader.

    Args:
        loader: A DataLoader, or a wrapper around DataLoaders.
        loop: The training loop, or None if there's none.
        epochs: How many times the loop runs.
        seconds: How many seconds this experiment may take.
        mark: A number that tells the parent what this process was doing last.
        known: The evidence so far, or None if there's none.
        threads: The other threads in the process that forked this one, except dltutor's own.
        make: The function that you gave the doctor to make the loader, or None.
        own_locks: The locks that `take_over` replaced, or None before `take_over` is called.
    """

    loader: Any
    loop: Loop | None
    epochs: int
    seconds: float
    mark: Mark = field(default_factory=Mark)
    known: Evidence | None = None
    threads: tuple[threading.Thread, ...] = ()
    make: Callable[[], Any] | None = None
    own_locks: OwnLocks | None = None

    def take_over(self) -> None:
        """Replace multiprocessing's locks that the dataset, loop, and loader share with the parent.

        A lock that has a name in the operating system stays (see own_locks.py).
        """
        inner = self.inner
        around = (inner.sampler, inner.batch_sampler, inner.collate_fn, inner.worker_init_fn)
        self.own_locks = OwnLocks(self.dataset, self.loop, *around)
        self.own_locks.renew()

    @property
    def inner(self) -> DataLoader[Any]:
        """The DataLoader that starts the workers, or the first of several."""
        return inner_loader(self.loader)

    @property
    def dataset(self) -> Any:
        return self.inner.dataset

    @property
    def stream(self) -> bool:
        return is_a(self.dataset, IterableDataset)

    @property
    def method(self) -> str:
        """The start method of the workers, or "" if there are none."""
        inner = self.inner
        if not inner.num_workers:
            return ""
        context = inner.multiprocessing_context
        name = context.get_start_method() if context is not None else None
        return str(name or multiprocessing.get_start_method())

    def change(self, **settings: Any) -> None:
        """Change settings of every DataLoader in the loader, even settings that torch protects.

        The next iteration starts new workers, even if the old ones were persistent.

        Args:
            settings: Values for the DataLoader's attributes, by name, and `method` for the start
                method, which has no effect without workers. If `num_workers` is 0, the settings
                that need workers are reset, too. The samplers stay, so `batch_size` and `shuffle`
                have no effect.
        """
        if self.own_locks is not None:
            self.own_locks.renew()  # a worker killed in the last run may have held a lock
        for each in inner_loaders(self.loader).values():
            held = vars(each)
            with suppress(KeyError):
                held["_iterator"] = None
            if settings.get("num_workers") == 0:
                held.update(prefetch_factor=None, persistent_workers=False, timeout=0)
                held["_DataLoader__multiprocessing_context"] = None
            held.update({name: value for name, value in settings.items() if name != "method"})
            method = settings.get("method")
            if method is not None and each.num_workers:
                each.multiprocessing_context = method

    def in_workers(self, after: InWorker | None = None, *, before: InWorker | None = None) -> None:
        """Have each worker call a function when it starts, and undo earlier calls to `in_workers`.

        Args:
            after: A function to call with the worker's number after the user's worker_init_fn.
            before: A function to call with the worker's number before the user's worker_init_fn.
        """
        self.change()
        for each in inner_loaders(self.loader).values():
            vars(each)["worker_init_fn"] = WorkerInit(own_init(each), before=before, after=after)

    def seed_sampler(self) -> None:
        """Give the sampler a generator with a fixed seed, so that its order can be repeated.

        A sampler without an attribute `generator` stays as it is.
        """
        sampler = self.sampler
        if has(sampler, "generator"):
            sampler.generator = torch.Generator().manual_seed(0)

    def seed(self, seed: int) -> None:
        """Seed the global random generators, and the generators of the loader and its sampler."""
        seed_all(seed)
        for each in (self.inner, self.sampler):
            if is_a(generator := attribute(each, "generator"), torch.Generator):
                generator.manual_seed(seed)

    @property
    def sampler(self) -> Any:
        """The sampler that deals out indices."""
        return sampler_of(self.inner)

    @property
    def samplers(self) -> tuple[Any, ...]:
        """The objects that may deal out indices, starting with the one that surely does."""
        batches = self.inner.batch_sampler
        held = (each for each in attributes_of(batches).values() if is_a(each, Sampler))
        return self.sampler, batches, attribute(batches, "sampler"), *held, self.inner.sampler

    @property
    def told(self) -> Any:
        """The sampler that has a `set_epoch`, or `sampler` if none has."""
        found = self.sampler_with("set_epoch")
        return self.sampler if found is None else found

    def sampler_with(self, method: str) -> Any:
        """Return the first of `samplers` that has a method with this name, or None."""
        return next((each for each in self.samplers if callable(attribute(each, method))), None)

    @property
    def dealer(self) -> Any:
        """The loader's batch sampler, or its sampler if automatic batching is turned off."""
        inner = self.inner
        return inner.sampler if inner.batch_sampler is None else inner.batch_sampler

    @property
    def epochs_to_run(self) -> int:
        """How many epochs to run.

        Without a training loop, run at least two, because the second epoch may repeat or miss
        something. With a training loop and persistent workers, also run at least two, because you
        may call your loop once per epoch.
        """
        again = self.loop is None or self.inner.persistent_workers
        return max(self.epochs, 2) if again else self.epochs

    def tell(self, epoch: int) -> None:
        """Call `set_epoch` on the dataset and samplers that have it, as a training loop does."""
        for each in (self.dataset, self.sampler, self.inner.batch_sampler):
            if callable(set_epoch := attribute(each, "set_epoch")):
                set_epoch(epoch)

    def keys(self) -> list[Any]:
        """Return the indices of an epoch, as `indices` does, but without duplicates."""
        return list({digest(each): each for each in self.indices()}.values())

    def indices_in(self, dealt: Any) -> list[Any]:
        """Return a list of the indices that the `dealer` dealt out at once, a batch or only one.

        Args:
            dealt: What the `dealer` yielded.
        """
        # Don't require a list, because a batch may also be an array or a generator.
        batch = self.inner.batch_sampler is not None or is_a(dealt, (list, tuple))
        return [*dealt] if batch else [dealt]

    def indices(self) -> list[int]:
        """Return the indices of an epoch in the sampler's order, at most a thousand."""
        return [*islice(chain.from_iterable(map(self.indices_in, self.dealer)), 1000)]


def inner_loader(loader: Any) -> DataLoader[Any]:
    """Return the loader itself, or the first DataLoader in a wrapper."""
    return next(iter(inner_loaders(loader).values()))


def length_of(thing: Any) -> int | None:
    """Return the length of a dataset or a loader, or None if it isn't known."""
    with suppress(Exception):  # a stream may have no length, and your `__len__` may raise anything
        return len(thing)
    return None


def own_line(function: Any) -> str:
    """Return where a function is defined, such as "train.py, line 12", or "" if unknown."""
    code = attribute(attribute(function, "__func__", function), "__code__")
    if not is_a(code, CodeType):
        return ""
    return f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}"


def described(error: BaseException) -> tuple[str, str, str]:
    """Return the type of an exception, the first line of its message, and your innermost line.

    Each of the last two is "" if there's none. The message has at most 200 characters.
    """
    read = errors.read(error)
    text = tidy(message_of(error)).strip().splitlines()
    at = str(read.traceback[-1]) if read.traceback else ""
    return type(error).__name__, text[0][:200] if text else "", at
