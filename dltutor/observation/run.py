"""Track one observed run: the batches that the loader delivers and the workers that it starts."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.observation import loaders, own_mappings, stacks, torch_internals, worker_setup
from dltutor.observation.counting import Counted, counting
from dltutor.observation.interrupts import Interrupts, delay_in_plumbing
from dltutor.observation.leftovers import Started
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.record import Worker
from dltutor.observation.time_limits import DeadlinePassed, deadline
from dltutor.observation.worker_init import WorkerInit

_GRACE: Final = 1.0  # seconds to wait for an iterator's workers to exit, or to reap a dead worker
_LAST_STEPS: Final = 5.0  # seconds to wait for a worker to die after main has lost contact with it


class Run:
    """A record of one observed run that counts batches and knows each iterator's workers.

    Attributes:
        batches: How many batches have arrived.
        samples: How many samples those batches were made of, or None if unknown.
        started: When the run began, on the clock `time.perf_counter`.
        first_batch: Seconds until the first batch arrived, or None before that.
        last_batch: Seconds until the last batch so far arrived, or None before the first batch.
        stderr: The file that gets what the workers write to descriptor 2.
    """

    def __init__(
        self,
        loader: Any,
        folder: str,
        recorder: Recorder,
        started: Started,
        interrupts: Interrupts,
    ) -> None:
        self.loader = loader
        self.batches = 0
        self.samples: int | None = 0
        self.started = time.perf_counter()
        self.first_batch: float | None = None
        self.last_batch: float | None = None
        self.stderr = Path(folder) / "stderr"
        self._recorder = recorder
        self._ours = started
        self._interrupts = interrupts
        self._folder = folder
        self._inner = loaders.inner_loaders(loader)
        self._counted: list[Counted] = []
        self._iterators: dict[int, tuple[str, Any]] = {}  # id -> loader's name, iterator
        self._arrived = 0  # batches that arrived from `_iterators`
        self._samples: int | None = 0  # samples in the batches that arrived from `_iterators`

    @contextmanager
    def instrumented(self) -> Iterator[None]:
        """Count the loader's batches, and register the workers that it starts in the block.

        Register the workers that a loader has kept from an earlier epoch, too. After the block, no
        loader reuses an iterator, because `end` ends the workers.
        """
        for name, loader in self._inner.items():
            if kept := torch_internals.kept_iterator(loader):
                self._register(name, kept)
        try:
            with (
                torch_internals.intercepted(self._make),
                torch_internals.arrivals(self._arrive),
                counting(self.loader, self._count),
            ):
                yield
        finally:
            for loader in self._inner.values():
                torch_internals.drop_kept_iterator(loader)

    @property
    def waited(self) -> float:
        """How many seconds the loop waited for batches."""
        return sum(each.waited for each in self._counted)

    @property
    def expected(self) -> int | None:
        """How many samples all epochs have according to `len(dataset)`, or None if unknown."""
        if len(self._inner) != 1 or not all(each.finished for each in self._counted):
            return None
        loader = next(iter(self._inner.values()))
        length = loaders.length(loader)
        return None if length is None else length * len(self._counted)

    def loader_of(self, error: BaseException) -> str:
        """Return the name of the loader whose iterator raised `error`, or "" if it's unknown."""
        raised = torch_internals.iterator_in(error)
        return self._iterators.get(id(raised), ("", None))[0]

    def wait_for_dead_worker(self) -> bool:
        """Wait up to 5 s until any worker has ended, and return whether one has."""
        processes = [process for _, _, process in self._last_workers()]
        if not processes:
            return False
        wait([process.sentinel for process in processes], timeout=_LAST_STEPS)
        return any(_exit_code(process) is not None for process in processes)

    def waits_for_dead_worker(self) -> bool:
        """Return whether torch still waits for a batch from a dead worker.

        torch looks for dead workers only every 5 s, so a deadline may pass before torch finds one.
        """
        last = self._last().values()
        expected = [each for one in last for each in torch_internals.unfinished_workers(one)]
        return any(_exit_code(process) is not None for process in expected)

    def fates(self, *, where: bool) -> tuple[Worker, ...]:
        """Return the last epoch's workers, and record in the timeline how any of them died.

        If `where` is True, also ask the running workers for their stacks.
        """
        found = []
        for loader, number, process in self._last_workers():
            code, pid = _exit_code(process), process.pid
            stack = None
            if where and code is None and pid is not None:
                stack = stacks.ask(self._folder, pid)
            worker = Worker(number, code, stack, loader)
            if pid is not None and code:
                self._recorder.died(pid, worker.fate)
            found.append(worker)
        return tuple(found)

    def ignore_deaths(self) -> None:
        """Stop torch from raising an exception in main when a worker dies."""
        for _, iterator in self._iterators.values():
            torch_internals.forget_workers(iterator)

    def other_workers(self) -> int:
        """Return how many workers of other loaders, which the loop iterated and kept, still run."""
        alive = [each for other, _ in self._ours.iterators if (each := other()) is not None]
        workers = [worker for each in alive for worker in torch_internals.workers_of(each)]
        return sum(worker.is_alive() for worker in workers)

    def end(self, *, gracefully: bool) -> None:
        """End all workers, drop all iterators, and remove the workers' temporary folders.

        If `gracefully`, give each iterator's workers up to 1 s to exit by themselves first. A
        loader that the training loop keeps, such as one for validation, starts new workers later.
        """
        iterators = [iterator for _, iterator in self._iterators.values()]
        for other, keeper in self._ours.iterators:
            if (iterator := other()) is not None:
                iterators.append(iterator)
                if (loader := keeper()) is not None and loader._iterator is iterator:
                    torch_internals.drop_kept_iterator(loader)
        for iterator in iterators:
            if gracefully:
                with suppress(DeadlinePassed), deadline(_GRACE):
                    torch_internals.shut_down(iterator)
            torch_internals.abandon(iterator)
        self._iterators.clear()
        worker_setup.remove_temporary_folders(self._folder)
        for counted in self._counted:
            counted.release()

    def _count(self, iterator: Any) -> Counted:
        self._counted.append(Counted(iterator, self._deliver))
        return self._counted[-1]

    def _deliver(self, batch: Any) -> None:
        self._interrupts.deliver()  # interrupts that were held back while torch fetched the batch
        now = time.perf_counter() - self.started
        if self.first_batch is None:
            self.first_batch = now
        self.last_batch = now
        self.batches += 1
        self._recorder.batches = self.batches
        # A wrapper may fetch ahead or make its own batches. Then we don't know how many samples are
        # in a batch.
        self.samples = self._samples if self._arrived == self.batches else None

    def _arrive(self, iterator: Any) -> None:
        if id(iterator) in self._iterators:
            self._arrived += 1
            samples = torch_internals.samples(iterator)
            if self._samples is not None:
                self._samples = None if samples is None else self._samples + samples

    def _make(self, loader: DataLoader[Any], make: torch_internals.MakeIterator) -> Any:
        # A wrapper in which we found no loader makes its loaders as it runs. So count any loader in
        # the main thread as the wrapper's.
        reached = {id(each): name for name, each in self._inner.items()}
        in_main = threading.current_thread() is threading.main_thread()
        name = reached.get(id(loader)) if reached or not in_main else ""
        if name is None:
            try:
                iterator = make()
            except BaseException as error:
                if in_main:
                    self._ours.own_started(error)
                raise
            if in_main and loader.num_workers:  # the loop's own loader, not another thread's
                self._ours.iterators.append((weakref.ref(iterator), weakref.ref(loader)))
                self._ours.own(iterator)
            return iterator
        if loader.num_workers == 0:
            iterator = make()
            self._register(name, iterator)
            return iterator
        with self._recorder.starting():
            iterator = self._start_workers(name, loader, make)
        if in_main:
            delay_in_plumbing()
            self._interrupts.deliver()  # interrupts that were held back while the workers started
        return iterator

    def _start_workers(
        self, name: str, loader: DataLoader[Any], make: torch_internals.MakeIterator
    ) -> Any:
        init_fn = loader.worker_init_fn
        private = own_mappings.is_kept_private()
        setup = worker_setup.WorkerSetup(self._folder, self._ours.mark, private)
        loader.worker_init_fn = WorkerInit(init_fn, before=setup)
        try:
            with (
                worker_setup.stderr_for_workers(self.stderr),
                worker_setup.temporary_folder_shown(self._folder),
            ):
                iterator = make()
        except BaseException as error:
            unfinished = torch_internals.iterator_in(error)
            if unfinished is not None:
                self._register(name, unfinished)
            self._ours.own_started(error)
            raise
        finally:
            loader.worker_init_fn = init_fn
        self._register(name, iterator)
        return iterator

    def _register(self, name: str, iterator: Any) -> None:
        self._iterators[id(iterator)] = name, iterator
        self._ours.own(iterator)
        for number, process in enumerate(torch_internals.workers_of(iterator)):
            if process.pid is not None:
                self._recorder.name(process.pid, Worker(number, None, loader=name).name)

    def _last(self) -> dict[str, Any]:
        # Return each loader's last iterator with workers, by the loader's name.
        pairs = self._iterators.values()
        return {name: each for name, each in pairs if torch_internals.workers_of(each)}

    def _last_workers(self) -> Iterator[tuple[str, int, BaseProcess]]:
        for loader, iterator in self._last().items():
            for number, process in enumerate(torch_internals.workers_of(iterator)):
                yield loader, number, process


def _exit_code(process: BaseProcess) -> int | None:
    # When a process ends, its sentinel becomes ready a moment before we can reap the process. So
    # call join(), which waits until then. Reading `exitcode` alone doesn't wait.
    if wait([process.sentinel], timeout=0):
        process.join(_GRACE)
    return process.exitcode
