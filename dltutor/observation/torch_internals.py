"""Use the private attributes of torch's objects (checked on torch 2.13).

torch has no public way to ask an iterator for its workers or to end them right away. In dltutor,
only `diagnosis` and lesson 08 use other private names. Other modules depend on torch's strings,
such as its messages (`errors`), the name of a worker's function (`stacks`), and the name of a
worker's process (`memory.worker_names`).
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from multiprocessing import popen_fork
from multiprocessing.process import BaseProcess
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader, default_collate
from torch.utils.data._utils import signal_handling
from torch.utils.data._utils import worker as worker_loop
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from dltutor.observation.errors import traceback_of
from dltutor.observation.foreign import is_a, length_by_shape
from dltutor.system.processes import SHM_MANAGER, end, known

MakeIterator = Callable[[], Any]


@contextmanager
def intercepted(make: Callable[[DataLoader[Any], MakeIterator], Any]) -> Iterator[None]:
    """Have every loader in this process, but not in its forks, make its iterators through `make`.

    `make` takes the loader and a function that makes its iterator, and returns the iterator.
    """
    main = os.getpid()
    # We replace a subclass's method and the base class's, and the first may call the second. So
    # keep the loaders for which `make` is running, and call `make` only once.
    making: list[DataLoader[Any]] = []

    def by_way_of_make(own: Callable[[DataLoader[Any]], Any]) -> Callable[[DataLoader[Any]], Any]:
        def _get_iterator(self: DataLoader[Any]) -> Any:
            if os.getpid() != main or any(each is self for each in making):
                return own(self)
            making.append(self)
            try:
                return make(self, partial(own, self))
            finally:
                making.pop()

        return _get_iterator

    with _replaced(DataLoader, _get_iterator=by_way_of_make):
        yield


class _Dealt:
    """A record of how many samples the sampler dealt out for each of an iterator's batches.

    `ahead` maps torch's number for each batch that hasn't arrived to the batch's number of samples.
    `last` is the number of samples in the last batch to arrive. None means unknown.
    """

    def __init__(self) -> None:
        self.ahead: dict[int, int | None] = {}
        self.last: int | None = None

    def pop_arrived(self, iterator: Any) -> list[int | None]:
        """Forget the batches that torch no longer waits for, and return their numbers of samples.

        Usually that's one batch. If a worker has reached the end of its stream, torch has also
        given up on batches from that worker. If a subclass's `__next__` has called the base
        class's, that call has already forgotten the batch, so the list is empty.
        """
        waiting = getattr(iterator, "_task_info", ())
        return [self.ahead.pop(task) for task in list(self.ahead) if task not in waiting]


_dealt: WeakKeyDictionary[_BaseDataLoaderIter, _Dealt] = WeakKeyDictionary()


@contextmanager
def arrivals(arrived: Callable[[Any], None]) -> Iterator[None]:
    """Track how many samples each batch in the block was made of, and call `arrived` for each.

    The sampler is ahead of the batches that arrive, and batches may overtake each other. So count
    the indices when torch deals them out, and look the count up when the batch arrives.

    Forks of this process don't call `arrived`. The function takes the iterator that got the batch,
    and `samples` then returns the batch's size.
    """
    main = os.getpid()

    def counting_indices(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(own)
        def _next_index(self: Any) -> Any:
            index = own(self)
            dealt = _dealt.setdefault(self, _Dealt())
            task = getattr(self, "_send_idx", 0)
            if task == 0:  # a new epoch begins, or the iterator has no workers
                dealt.ahead.clear()
            dealt.ahead[task] = _samples_of(self, index)
            return index

        return _next_index

    def reporting(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(own)
        def __next__(self: Any) -> Any:
            dealt = _dealt.setdefault(self, _Dealt())
            try:
                batch = own(self)
            except BaseException:
                dealt.pop_arrived(self)  # an error or the epoch's end came instead of a batch
                raise
            sizes = dealt.pop_arrived(self)
            # If a subclass's method calls the base class's, only the inner call finds a size.
            if sizes and os.getpid() == main:
                dealt.last = _samples_in(self, batch, sizes[0])
                arrived(self)
            return batch

        return __next__

    with _replaced(_BaseDataLoaderIter, _next_index=counting_indices, __next__=reporting):
        yield


def samples(iterator: Any) -> int | None:
    """Return how many samples the last batch from a loader's iterator was made of, or None.

    The number is None if the batch arrived outside a block of `arrivals`, the iterator isn't
    torch's, the sampler's indices have no length, or a stream's batch doesn't show the number.
    """
    known = isinstance(iterator, _BaseDataLoaderIter)
    return _dealt[iterator].last if known and iterator in _dealt else None


def _samples_of(iterator: Any, index: Any) -> int | None:
    if not iterator._auto_collation:
        return len(index) if isinstance(index, list) else 1
    try:
        return len(index)
    except TypeError:  # torch accepts an index that is a generator, if there are no workers
        return None


def _samples_in(iterator: Any, batch: Any, asked: int | None) -> int | None:
    if iterator._dataset_kind == _DatasetKind.Map:
        return asked
    # A stream's last batch may be smaller than torch asked for, unless torch drops such a batch.
    if iterator._auto_collation and (asked == 1 or iterator._drop_last):
        return asked
    made_by_torch = iterator._auto_collation and iterator._collate_fn is default_collate
    return length_by_shape(batch) if made_by_torch else None


@contextmanager
def _replaced(base: type[Any], **methods: Callable[[Any], Any]) -> Iterator[None]:
    # Replace methods in the block. Include subclasses, because torchdata subclasses torch's loaders
    # and iterators.
    with ExitStack() as undo:
        for cls in _family(base):
            for name, wrap in methods.items():
                if own := vars(cls).get(name):
                    undo.callback(setattr, cls, name, own)
                    setattr(cls, name, wrap(own))
        yield


def _family(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(each for below in cls.__subclasses__() for each in _family(below))]


def iterator_in(error: BaseException) -> Any:
    """Return the multi-worker iterator in an exception's traceback, or None if there is none."""
    found = _selves(error, _BaseDataLoaderIter)
    return next((each for each in found if hasattr(each, "_shutdown_workers")), None)


def starting_pid(error: BaseException) -> int | None:
    """Return the pid of the process whose start an exception interrupted, or None if there's none.

    The pid comes from the traceback, because the Process object may not have it yet, for example
    while main writes to a spawned process.
    """
    starting = next(_selves(error, popen_fork.Popen), None)
    return getattr(starting, "pid", None)


def _selves(error: BaseException, kind: type) -> Iterator[Any]:
    frames = (frame for frame, _ in traceback.walk_tb(traceback_of(error)))
    return (own for frame in frames if is_a(own := frame.f_locals.get("self"), kind))


def kept_iterator(loader: DataLoader[Any]) -> Any:
    """Return the iterator, with its workers, that a loader keeps for its next epoch, or None.

    If the workers belong to a process that this one was forked from, return None and have the
    loader forget the iterator. But keep the iterator alive, because it tells its workers to exit
    when Python frees it.
    """
    iterator = loader._iterator
    workers: list[Any] = workers_of(iterator)
    if any(worker._parent_pid != os.getpid() for worker in workers):
        _INHERITED.append(iterator)
        drop_kept_iterator(loader)
        return None
    alive = any(worker.is_alive() for worker in workers)
    return iterator if loader.persistent_workers or alive else None


_INHERITED: Final[list[Any]] = []


def drop_kept_iterator(loader: DataLoader[Any]) -> None:
    """Have a loader make a new iterator for its next epoch."""
    loader._iterator = None
    # Otherwise, torchdata would reuse its first iterator.
    if hasattr(loader, "_initial_iter_for_state_dict"):
        loader._initial_iter_for_state_dict = False


def workers_of(iterator: Any) -> list[BaseProcess]:
    """Return a list of an iterator's worker processes, in the order of their numbers."""
    return list(getattr(iterator, "_workers", ()))


def unfinished_workers(iterator: Any) -> list[BaseProcess]:
    """Return the workers that torch hasn't marked as finished, as it does when a stream ends."""
    expected = getattr(iterator, "_workers_status", ())
    return [worker for worker, more in zip(workers_of(iterator), expected, strict=False) if more]


def forget_workers(iterator: Any) -> None:
    """Stop torch's SIGCHLD handler from raising an exception when an iterator's workers die."""
    if getattr(iterator, "_worker_pids_set", False):
        _remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


def idle_workers(iterator: Any) -> set[int]:
    """Return the numbers of the workers that have delivered all batches that torch requested.

    While a batch hasn't arrived, the iterator's task for the batch has only the worker's number.
    """
    tasks = getattr(iterator, "_task_info", {}).values()
    return {*range(len(workers_of(iterator)))} - {task[0] for task in tasks if len(task) == 1}


def pinned(batch: Any) -> list[torch.Tensor]:
    """Return the tensors in a batch that a loader with `pin_memory=True` would pin."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
        found.append(tensor)
        return tensor

    own = torch.Tensor.pin_memory
    torch.Tensor.pin_memory = note  # type: ignore[assignment, method-assign]
    try:
        pin_memory(batch)
    finally:
        torch.Tensor.pin_memory = own  # type: ignore[method-assign]
    return found


def shut_down(iterator: Any) -> None:
    """Ask an iterator's workers to exit, and wait up to 10 s for each one.

    Keep torch from terminating a worker that doesn't exit, because the worker may be making a
    batch's file, whose name would then stay in `/dev/shm`.
    """
    if hasattr(iterator, "_shutdown_workers"):
        for worker in workers_of(iterator):
            vars(worker)["terminate"] = lambda: None
        iterator._shutdown_workers()


def abandon(iterator: Any) -> None:
    """Kill an iterator's workers, free its queues, and make the iterator unusable.

    A worker that was killed may hold a queue's lock, and `shut_down` would wait for that lock. An
    iterator without workers stays as it is.
    """
    if not hasattr(iterator, "_shutdown_workers"):
        return
    iterator._shutdown = True
    forget_workers(iterator)  # torch knows workers by the iterator's address, which Python reuses
    workers = [worker for worker in workers_of(iterator) if worker.is_alive()]
    running = (known(worker.pid) for worker in workers if worker.pid is not None)
    end(*running, spare=(SHM_MANAGER,))  # because main may have batches from a worker's manager
    for worker in workers:
        worker.join(timeout=5)
    if hasattr(iterator, "_pin_memory_thread_done_event"):
        iterator._pin_memory_thread_done_event.set()
    queues = [*getattr(iterator, "_index_queues", ())]
    queues += [iterator._worker_result_queue] if hasattr(iterator, "_worker_result_queue") else []
    for each in queues:
        _free(each._notempty)
        each.cancel_join_thread()
        each.close()
        if each._thread is not None:
            # If a signal interrupted the thread's start, close() didn't tell the thread to end.
            each._finalize_close(each._buffer, each._notempty)
            each._thread.join(timeout=1)
    # A loop, a wrapper, or a cycle may keep the iterator. Free its queues and semaphores anyway.
    vars(iterator).clear()
    iterator._shutdown = True
    # torch calls this method when Python deletes the iterator. A subclass's own method, such as
    # litdata's, may use attributes that are gone by now.
    iterator._shutdown_workers = lambda: None


def _free(condition: threading.Condition) -> None:
    # Threads hold the lock only for moments. If the lock stays held, torch's SIGCHLD handler has
    # raised an exception in a put() right after put() took the lock. Nothing else releases the lock
    # then, and close() would wait forever.
    condition.acquire(timeout=0.5)
    condition.release()


def act_as_worker(number: int, workers: int, dataset: Any) -> None:
    """Have `get_worker_info()` in this process describe one of a loader's workers from now on."""
    info = worker_loop.WorkerInfo(id=number, num_workers=workers, seed=number, dataset=dataset)
    worker_loop._worker_info = info


def sigchld() -> tuple[Any, bool]:
    """Return the SIGCHLD handler, and whether torch believes that it has installed its own."""
    return signal.getsignal(signal.SIGCHLD), signal_handling._SIGCHLD_handler_set


def restore_sigchld(before: tuple[Any, bool]) -> None:
    """Restore the SIGCHLD handler and torch's flag, in the form that `sigchld` returns.

    Restore the flag because torch installs its handler only once in a process, and later loaders
    need the handler.
    """
    handler, installed = before
    if signal.getsignal(signal.SIGCHLD) is not handler:
        signal.signal(signal.SIGCHLD, handler)
    signal_handling._SIGCHLD_handler_set = installed
