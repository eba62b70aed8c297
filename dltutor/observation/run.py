"""One run of a loader under observation: its iterators, its workers, what came out of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from torch.utils.data import DataLoader, default_collate

from dltutor.observation import stacks, torch_internals
from dltutor.observation.deaths import delay_in_plumbing
from dltutor.observation.interrupts import Interrupts
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.report import Worker
from dltutor.observation.time_limits import DeadlinePassed, deadline
from dltutor.observation.worker_setup import (
    WorkerSetup,
    remove_temporary_folders,
    stderr_for_workers,
)

_GRACE: Final = 1.0  # seconds for a worker to end by itself, or to be found dead
_LAST_STEPS: Final = 5.0  # seconds for a worker that has closed its socket to be dead
_STDERR_KEPT: Final = 64_000  # bytes, the last ones


class Run:
    """Counts what a loader delivers, and knows the workers of each of its iterators.

    Args:
        loader: The loader; its way of making iterators is replaced until `closed`.
        folder: For the workers' stderr and stacks.
        recorder: Told the name of each worker and the number of batches.
        started: Filled with each iterator and the pid of each worker.
        interrupts: Delivered once workers have started, and with each batch.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        folder: str,
        recorder: Recorder,
        started: Started,
        interrupts: Interrupts,
    ) -> None:
        self.loader = loader
        self.folder = folder
        self.recorder = recorder
        self.processes_and_iterators = started
        self.interrupts = interrupts
        self.iterators: list[Any] = []
        self.counted: list[Counted] = []
        self.batches = 0
        self.samples = 0
        self.started = time.perf_counter()
        self.first_batch: float | None = None
        self.last_batch: float | None = None

    @contextmanager
    def instrumented(self) -> Iterator[None]:
        """Count the batches of every iterator that the loader makes in the block."""
        make = torch_internals.iterator_maker(self.loader)
        kept = torch_internals.kept_iterator(self.loader)
        if kept is not None:
            self._know(kept)
            torch_internals.keep_iterator(self.loader, self._counting(kept))
        torch_internals.replace_iterator_maker(
            self.loader, lambda: self._counting(self._make(make))
        )
        try:
            yield
        finally:
            torch_internals.restore_iterator_maker(self.loader)
            torch_internals.keep_iterator(self.loader, None)

    def _make(self, make: torch_internals.MakeIterator) -> Any:
        if self.loader.num_workers == 0:
            return make()
        init_fn = self.loader.worker_init_fn
        self.loader.worker_init_fn = WorkerSetup(self.folder, init_fn)
        try:
            with stderr_for_workers(Path(self.folder) / "stderr"):
                iterator = make()
        except BaseException as error:
            unfinished = torch_internals.unfinished_iterator(error)
            if unfinished is not None:
                self._know(unfinished)
            raise
        finally:
            self.loader.worker_init_fn = init_fn
        delay_in_plumbing()
        self._know(iterator)
        self.interrupts.deliver()  # what was held back while they were started
        return iterator

    def _counting(self, iterator: Any) -> Counted:
        self.counted.append(Counted(iterator, self))
        return self.counted[-1]

    def _know(self, iterator: Any) -> None:
        self.iterators.append(iterator)
        for number, process in enumerate(torch_internals.workers_of(iterator)):
            if process.pid is not None:
                self.recorder.name(process.pid, f"W{number}")
                self.pids.add(process.pid)

    def deliver(self, batch: Any) -> None:
        """Count one batch."""
        now = time.perf_counter() - self.started
        if self.first_batch is None:
            self.first_batch = now
        self.last_batch = now
        self.batches += 1
        self.recorder.batches = self.batches
        self.samples += count_samples(self.loader, batch)

    def processes(self) -> list[BaseProcess]:
        """The workers of the last iterator."""
        return torch_internals.workers_of(self.iterators[-1]) if self.iterators else []

    def wait_for_a_death(self) -> bool:
        """Whether a worker has died, giving a dying one the time to be dead."""
        if not self.processes():
            return False
        wait([process.sentinel for process in self.processes()], timeout=_LAST_STEPS)
        return any(exit_code(process) is not None for process in self.processes())

    def waits_for_the_dead(self) -> bool:
        """Whether a worker is dead that torch still expects a batch from: it looks every 5 s."""
        awaited = torch_internals.awaited_workers(self.iterators[-1]) if self.iterators else []
        return any(exit_code(process) is not None for process in awaited)

    def workers(self, *, where: bool) -> tuple[Worker, ...]:
        """The workers as they stand now.

        Args:
            where: Ask each that still runs for its stack, one after the other.
        """
        standing = []
        for number, process in enumerate(self.processes()):
            code = exit_code(process)
            ask = where and code is None and process.pid is not None
            stack = stacks.ask(self.folder, process.pid) if ask and process.pid else None
            worker = Worker(number, code, stack)
            if process.pid is not None and worker.exitcode:
                self.recorder.died(process.pid, worker.fate)
            standing.append(worker)
        return tuple(standing)

    def stderr(self) -> str:
        """The end of what the workers wrote to descriptor 2."""
        try:
            with (Path(self.folder) / "stderr").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _STDERR_KEPT))
                return file.read().decode(errors="replace").replace("\0", "")
        except FileNotFoundError:
            return ""

    def ignore_deaths(self) -> None:
        """From now on torch raises no more when a worker dies."""
        for iterator in self.iterators:
            torch_internals.forget_workers(iterator)

    def end_workers(self, *, kindly: bool) -> None:
        """End the workers of every iterator.

        Args:
            kindly: Let those that are idle leave by themselves first.
        """
        for iterator in self.iterators:
            if kindly:
                with suppress(DeadlinePassed), deadline(_GRACE):
                    torch_internals.shut_down(iterator)
            torch_internals.abandon(iterator)
        # Their queues hold semaphores, which must be gone before multiprocessing's helpers are;
        # so nothing keeps an iterator, not even a loop that kept its own.
        self.iterators.clear()
        for counted in self.counted:
            counted.let_go()
        remove_temporary_folders(self.folder)


def exit_code(process: BaseProcess) -> int | None:
    """The exit code of a process, or None while it runs."""
    # A process that ends closes its descriptors, and with them its sentinel, before it can be
    # reaped: join() waits for that moment, `exitcode` alone does not.
    if wait([process.sentinel], timeout=0):
        process.join(_GRACE)
    return process.exitcode


class Counted:
    """An iterator of a loader that counts; everything else is the iterator's own."""

    def __init__(self, iterator: Any, run: Run) -> None:
        self._iterator = iterator
        self._run = run

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        batch = next(self._iterator)
        self._run.interrupts.deliver()  # what was held back while it was fetched
        self._run.deliver(batch)
        return batch

    def __len__(self) -> int:
        return len(self._iterator)

    def let_go(self) -> None:
        """Become an iterator without anything left in it."""
        self._iterator = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def count_samples(loader: DataLoader[Any], batch: Any) -> int:
    """How many samples a batch holds, as far as its shape tells.

    A list made by a collate function of the learner's own counts as a list of samples.
    """
    if loader.batch_sampler is None:  # no batching: each item is a sample
        return 1
    if isinstance(batch, list) and loader.collate_fn is not default_collate:
        return len(batch)
    return _first_dimension(batch)


def _first_dimension(batch: Any) -> int:
    if batch is None:
        return 0
    if isinstance(batch, Mapping):
        return _first_dimension(next(iter(batch.values()), None))
    if isinstance(batch, (list, tuple)):
        # ["cat", "dog"] is a batch of names; [images, labels] is one of tensors.
        return len(batch) if not batch or isinstance(batch[0], str) else _first_dimension(batch[0])
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else 1
