"""Private attributes of torch's objects (checked on torch 2.13).

Torch has no public way to ask an iterator for its workers or to end them at once. Only `diagnosis`
and lesson 08 use other private names. Three modules know texts of torch's: its messages (`errors`),
the name of a worker's function (`stacks`), and a worker's command line (`memory.worker_names`).
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
from typing import Any
from weakref import WeakKeyDictionary

from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader, default_collate
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from dltutor.observation.collated import length_by_shape
from dltutor.observation.errors import traceback_of
from dltutor.observation.foreign import is_a
from dltutor.system.processes import end, known

MakeIterator = Callable[[], Any]


@contextmanager
def intercepted(make: Callable[[DataLoader[Any], MakeIterator], Any]) -> Iterator[None]:
    """Have every loader of this process make its iterators by way of `make`, in the block.

    Args:
        make: Given the loader and its own way of making an iterator. Not called in processes that
            are forked meanwhile.
    """
    main = os.getpid()
    making: list[DataLoader[Any]] = []  # a class may ask its base class to make the iterator

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
    """What the sampler dealt out for an iterator's batches.

    Attributes:
        ahead: Samples of each batch that was asked for and has not arrived, by torch's number
            for it; None for a batch of unknown size.
        last: Samples of the batch that arrived last.
    """

    def __init__(self) -> None:
        self.ahead: dict[int, int | None] = {}
        self.last: int | None = None

    def taken(self, iterator: Any) -> list[int | None]:
        """Take what the iterator does not wait for anymore, which is one batch at most."""
        waiting = getattr(iterator, "_task_info", ())
        return [self.ahead.pop(task) for task in list(self.ahead) if task not in waiting]


_dealt: WeakKeyDictionary[_BaseDataLoaderIter, _Dealt] = WeakKeyDictionary()


@contextmanager
def arrivals(arrived: Callable[[Any], None]) -> Iterator[None]:
    """Know of each batch in the block how many samples it was made of.

    The sampler is ahead of the batches that arrive, and these may overtake each other, so its
    indices are counted as torch deals them out, and looked up when their batch arrives.

    Args:
        arrived: Called with the iterator of any loader of this process when it has a batch; then
            `samples` tells of it. Not called in processes that are forked meanwhile.
    """
    main = os.getpid()

    def counting_indices(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(own)
        def _next_index(self: Any) -> Any:
            index = own(self)
            dealt = _dealt.setdefault(self, _Dealt())
            task = getattr(self, "_send_idx", 0)
            if task == 0:  # a new epoch of the same iterator
                dealt.ahead.clear()
            dealt.ahead[task] = _samples_of(self, index)
            return index

        return _next_index

    def telling(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(own)
        def __next__(self: Any) -> Any:
            dealt = _dealt.setdefault(self, _Dealt())
            try:
                batch = own(self)
            except BaseException:
                dealt.taken(self)  # its error arrived instead of it
                raise
            sizes = dealt.taken(self)
            if sizes and os.getpid() == main:  # else a base class was asked, and has told
                dealt.last = _samples_in(self, batch, sizes[0])
                arrived(self)
            return batch

        return __next__

    with _replaced(_BaseDataLoaderIter, _next_index=counting_indices, __next__=telling):
        yield


def samples(iterator: Any) -> int | None:
    """How many samples the last batch of a loader's iterator was made of.

    Returns:
        As many as the sampler dealt out for it. None for a batch that came before `arrivals`, for
        an iterator that isn't torch's, and for a stream, unless its batch shows the number.
    """
    known = isinstance(iterator, _BaseDataLoaderIter)
    return _dealt[iterator].last if known and iterator in _dealt else None


def _samples_of(iterator: Any, index: Any) -> int | None:
    if not iterator._auto_collation:
        return len(index) if isinstance(index, list) else 1
    try:
        return len(index)
    except TypeError:  # a generator of indices, which works without workers
        return None


def _samples_in(iterator: Any, batch: Any, asked: int | None) -> int | None:
    if iterator._dataset_kind == _DatasetKind.Map:
        return asked
    # A stream may end in the middle of a batch, and an item of it may be a batch already.
    if iterator._auto_collation and (asked == 1 or iterator._drop_last):
        return asked
    made_by_torch = iterator._auto_collation and iterator._collate_fn is default_collate
    return length_by_shape(batch) if made_by_torch else None


@contextmanager
def _replaced(base: type[Any], **methods: Callable[[Any], Any]) -> Iterator[None]:
    # In the class and in those below it: torchdata has loaders and iterators of its own kind.
    with ExitStack() as undo:
        for cls in _family(base):
            for name, made_of in methods.items():
                if own := vars(cls).get(name):
                    undo.callback(setattr, cls, name, own)
                    setattr(cls, name, made_of(own))
        yield


def _family(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(each for below in cls.__subclasses__() for each in _family(below))]


def iterator_in(error: BaseException) -> Any:
    """The iterator with workers that an exception came from, in its making too, or None."""
    for frame, _ in traceback.walk_tb(traceback_of(error)):
        iterator = frame.f_locals.get("self")
        if is_a(iterator, _BaseDataLoaderIter) and hasattr(iterator, "_shutdown_workers"):
            return iterator
    return None


def half_started(error: BaseException) -> int | None:
    """The pid of a process that multiprocessing was starting when an exception came, or None.

    Its Process object doesn't know it yet, as while main still writes to a spawned one.
    """
    for frame, _ in traceback.walk_tb(traceback_of(error)):
        starting = frame.f_locals.get("self")
        if is_a(starting, popen_fork.Popen):
            return getattr(starting, "pid", None)
    return None


def kept_iterator(loader: DataLoader[Any]) -> Any:
    """The iterator that a loader with persistent workers keeps for its next epoch, or None."""
    iterator = loader._iterator
    alive = any(worker.is_alive() for worker in workers_of(iterator))
    return iterator if loader.persistent_workers or alive else None


def drop_kept_iterator(loader: DataLoader[Any]) -> None:
    """Have a loader make a new iterator for its next epoch."""
    loader._iterator = None
    if hasattr(loader, "_initial_iter_for_state_dict"):  # torchdata's: the one it has is the next
        loader._initial_iter_for_state_dict = False


def workers_of(iterator: Any) -> list[BaseProcess]:
    """The worker processes of an iterator, by number; empty with `num_workers=0`."""
    return list(getattr(iterator, "_workers", ()))


def awaited_workers(iterator: Any) -> list[BaseProcess]:
    """Those of its workers that an iterator expects more from."""
    expected = getattr(iterator, "_workers_status", ())
    return [worker for worker, more in zip(workers_of(iterator), expected, strict=False) if more]


def forget_workers(iterator: Any) -> None:
    """Stop torch's SIGCHLD handler from raising when these workers end, because we end them."""
    if getattr(iterator, "_worker_pids_set", False):
        _remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


def idle_workers(iterator: Any) -> set[int]:
    """Return the numbers of the workers that have made all batches they were asked for.

    What hasn't arrived from a worker is a task of the iterator with the worker's number only.
    """
    tasks = getattr(iterator, "_task_info", {}).values()
    return {*range(len(workers_of(iterator)))} - {task[0] for task in tasks if len(task) == 1}


def shut_down(iterator: Any) -> None:
    """End an iterator's workers and queues; waits up to 5 s for each worker that is busy."""
    if hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def abandon(iterator: Any) -> None:
    """End an iterator's workers and free its queues, without asking the workers.

    A worker that was killed may have held a lock of a queue; `shut_down` would wait for it.
    Nothing happens to an iterator without workers.
    """
    if not hasattr(iterator, "_shutdown_workers"):
        return
    iterator._shutdown = True
    forget_workers(iterator)  # torch knows them by the iterator's address, which is used again
    workers = [worker for worker in workers_of(iterator) if worker.is_alive()]
    end(*(known(worker.pid) for worker in workers if worker.pid is not None))
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
            # If a signal interrupted its start, close() didn't tell the queue's thread to end.
            each._finalize_close(each._buffer, each._notempty)
            each._thread.join(timeout=1)
    # A loop, a wrapper, or a cycle may keep the iterator, but no queue and no semaphore with it.
    vars(iterator).clear()
    iterator._shutdown = True


def _free(condition: threading.Condition) -> None:
    # It's held only for moments. If it stays held, torch's SIGCHLD handler has raised in a put()
    # right after it was taken. It's never released then, and close() would wait forever.
    condition.acquire(timeout=0.5)
    condition.release()


def sigchld() -> tuple[Any, bool]:
    """The SIGCHLD handler, and whether torch believes to have installed its own."""
    return signal.getsignal(signal.SIGCHLD), signal_handling._SIGCHLD_handler_set


def restore_sigchld(before: tuple[Any, bool]) -> None:
    """Put back what `sigchld` returned.

    The flag goes with it: torch installs its handler once for a process, and later loaders
    need it too.
    """
    handler, installed = before
    if signal.getsignal(signal.SIGCHLD) is not handler:
        signal.signal(signal.SIGCHLD, handler)
    signal_handling._SIGCHLD_handler_set = installed
