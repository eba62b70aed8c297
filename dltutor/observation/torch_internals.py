"""The only place that reaches into torch's private parts (checked on torch 2.13).

Torch has no public way to ask an iterator for its workers, nor to end them at once.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

MakeIterator = Callable[[], Any]


def iterator_maker(loader: DataLoader[Any]) -> MakeIterator:
    """The method with which the loader makes an iterator and starts its workers."""
    make: MakeIterator = loader._get_iterator
    return make


def replace_iterator_maker(loader: DataLoader[Any], make: MakeIterator) -> None:
    """Have `iter(loader)` call `make` instead. Undo with `restore_iterator_maker`."""
    loader.__dict__["_get_iterator"] = make


def restore_iterator_maker(loader: DataLoader[Any]) -> None:
    """Undo `replace_iterator_maker`."""
    loader.__dict__.pop("_get_iterator", None)


def unfinished_iterator(error: BaseException) -> Any:
    """The iterator whose making an exception broke off, or None: only the traceback has it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(frame.f_locals.get("self"), _MultiProcessingDataLoaderIter):
            return frame.f_locals["self"]
    return None


def kept_iterator(loader: DataLoader[Any]) -> Any:
    """The iterator that a loader with persistent workers keeps, or None."""
    return loader._iterator


def keep_iterator(loader: DataLoader[Any], iterator: Any) -> None:
    """Replace the iterator that a loader with persistent workers keeps."""
    loader._iterator = iterator


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
    """Kill an iterator's workers and close its queues, without a word to the workers.

    A worker that was killed may have held a lock of a queue; `shut_down` would wait for it.
    """
    iterator._shutdown = True
    for worker in workers_of(iterator):
        if worker.is_alive():
            worker.kill()
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
