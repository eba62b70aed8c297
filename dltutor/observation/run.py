"""One run of a loader under observation: what it delivers, and the workers that it starts."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from dltutor.observation import loaders, torch_internals
from dltutor.observation.counting import Counted, counting
from dltutor.observation.interrupts import Interrupts, delay_in_plumbing
from dltutor.observation.leftovers import Started
from dltutor.observation.loaders import inner_loaders
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.texts import end_of_file
from dltutor.observation.worker_setup import (
    WorkerSetup,
    stderr_for_workers,
    temporary_folder_shown,
)
from dltutor.observation.workers import Workers


class Run:
    """Counts what a loader delivers, and prepares the workers of each of its iterators.

    Args:
        loader: The loader, or what wraps some.
        folder: For the workers' stderr and stacks.
        recorder: Told the name of each worker and the number of batches.
        started: Told of the workers, and of the iterators of the loop's other loaders.
        interrupts: Delivered once workers have started, and with each batch.
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
        self.workers = Workers(folder, recorder, started)
        self.batches = 0
        self.samples: int | None = 0
        self.started = time.perf_counter()
        self.first_batch: float | None = None
        self.last_batch: float | None = None
        self._recorder = recorder
        self._ours = started
        self._interrupts = interrupts
        self._stderr = Path(folder) / "stderr"
        self._folder = folder
        self._inner = inner_loaders(loader)
        self._counted: list[Counted] = []
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()  # of the inner loaders
        self._arrived = 0  # batches of theirs
        self._samples: int | None = 0  # in those

    @contextmanager
    def instrumented(self) -> Iterator[None]:
        """Count the batches of the loader, and know the workers that it starts, in the block."""
        for name, loader in self._inner.items():
            if kept := torch_internals.kept_iterator(loader):
                self._iterators.add(kept)
                self.workers.know(kept, name)
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

    def deliver(self, batch: Any) -> None:
        """Count one batch."""
        self._interrupts.deliver()  # what was held back while it was fetched
        now = time.perf_counter() - self.started
        if self.first_batch is None:
            self.first_batch = now
        self.last_batch = now
        self.batches += 1
        self._recorder.batches = self.batches
        # A wrapper may fetch ahead, or make other batches: then nothing is known of what it gives.
        self.samples = self._samples if self._arrived == self.batches else None

    @property
    def waited(self) -> float:
        """Seconds that the loop waited for batches."""
        return sum(each.waited for each in self._counted)

    @property
    def expected(self) -> int | None:
        """How many samples its whole epochs have by `len(dataset)`; None where that isn't known.

        Known for a loader of a dataset with a length, each of whose samples its sampler deals out.
        """
        if len(self._inner) != 1 or not all(each.finished for each in self._counted):
            return None
        loader = next(iter(self._inner.values()))
        length = loaders.length(loader)
        return None if length is None else length * len(self._counted)

    def stderr(self) -> str:
        """The end of what the workers wrote to descriptor 2."""
        return end_of_file(self._stderr)

    def end(self, *, kindly: bool) -> None:
        """End all workers, and keep nothing of any iterator.

        Args:
            kindly: Let those that are idle leave by themselves first.
        """
        self.workers.end(kindly=kindly)
        for counted in self._counted:
            counted.let_go()

    def _count(self, iterator: Any) -> Counted:
        self._counted.append(Counted(iterator, self.deliver))
        return self._counted[-1]

    def _arrive(self, iterator: Any) -> None:
        if iterator in self._iterators:
            self._arrived += 1
            samples = torch_internals.samples(iterator)
            if self._samples is not None:
                self._samples = None if samples is None else self._samples + samples

    def _make(self, loader: DataLoader[Any], make: torch_internals.MakeIterator) -> Any:
        # A wrapper that shows no loader makes its own as it goes: then any loader is one of them.
        reached = {id(each): name for name, each in self._inner.items()}
        in_main = threading.current_thread() is threading.main_thread()
        name = reached.get(id(loader)) if reached or not in_main else ""
        if name is None and not in_main:  # another thread's
            return make()
        if loader.num_workers == 0:
            iterator = make()
            if name is not None:
                self._iterators.add(iterator)
            return iterator
        if name is None:  # the loop's own
            iterator = make()
            self._ours.iterators.append(weakref.ref(iterator))
            for process in torch_internals.workers_of(iterator):
                if process.pid is not None:
                    self._ours.own(process.pid)
            return iterator
        init_fn = loader.worker_init_fn
        loader.worker_init_fn = WorkerSetup(self._folder, init_fn, self._ours.mark)
        try:
            with stderr_for_workers(self._stderr), temporary_folder_shown(self._folder):
                iterator = make()
        except BaseException as error:
            unfinished = torch_internals.iterator_in(error)
            if unfinished is not None:
                self.workers.know(unfinished, name)
            raise
        finally:
            loader.worker_init_fn = init_fn
        self._iterators.add(iterator)
        self.workers.know(iterator, name)
        if in_main:
            delay_in_plumbing()
            self._interrupts.deliver()  # what was held back while they were started
        return iterator
