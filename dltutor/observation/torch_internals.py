"""The only place that uses private attributes of torch's objects (checked on torch 2.13).

Torch has no public way to ask an iterator for its workers, nor to end them at once. Names and texts
of torch's are also known where they are read: messages in `errors`, a worker's function in `stacks`
and its command in `memory.worker_names`.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any

from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _BaseDataLoaderIter

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

    with ExitStack() as undo:
        for cls in _family(DataLoader):  # torchdata's makes iterators of its own kind
            if own := vars(cls).get("_get_iterator"):
                undo.callback(setattr, cls, "_get_iterator", own)
                cls._get_iterator = by_way_of_make(own)
        yield


def _family(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(each for below in cls.__subclasses__() for each in _family(below))]


def iterator_in(error: BaseException) -> Any:
    """The iterator with workers that an exception came from, in its making too, or None."""
    for frame, _ in traceback.walk_tb(vars(BaseException)["__traceback__"].__get__(error)):
        iterator = frame.f_locals.get("self")
        if is_a(iterator, _BaseDataLoaderIter) and hasattr(iterator, "_shutdown_workers"):
            return iterator
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
    """Stop torch's SIGCHLD handler from raising about these workers: their end is ours."""
    if getattr(iterator, "_worker_pids_set", False):
        _remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


def shut_down(iterator: Any) -> None:
    """End an iterator's workers and queues; waits up to 5 s for each worker that is busy."""
    if hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def abandon(iterator: Any) -> None:
    """End an iterator's workers and free its queues, without a word to the workers.

    A worker that was killed may have held a lock of a queue; `shut_down` would wait for it.
    """
    iterator._shutdown = True
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
            # close() has not told the queue's thread to end if a signal interrupted its start.
            each._finalize_close(each._buffer, each._notempty)
            each._thread.join(timeout=1)
    # Whoever keeps the iterator (a loop, a wrapper, a cycle) keeps no queue and semaphore by it.
    vars(iterator).clear()
    iterator._shutdown = True


def _free(condition: threading.Condition) -> None:
    # Held for moments only. If it stays held, torch's SIGCHLD handler has raised in a put(), just
    # when it had been taken: nobody will give it back, and close() would wait for it for ever.
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
