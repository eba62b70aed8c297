"""The workers of a run: their names, their fates, their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

from dltutor.observation import stacks, torch_internals
from dltutor.observation.leftovers import Started
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.report import Worker
from dltutor.observation.time_limits import DeadlinePassed, deadline
from dltutor.observation.worker_setup import remove_temporary_folders

_GRACE: Final = 1.0  # seconds for a worker to end by itself, or to be found dead
_LAST_STEPS: Final = 5.0  # seconds for a worker that has closed its socket to be dead


class Workers:
    """Knows the workers of each iterator that the observed loader makes.

    Args:
        folder: For the workers' stacks.
        recorder: Told the name of each worker, and of its death.
        started: Told of each worker.
    """

    def __init__(self, folder: str, recorder: Recorder, started: Started) -> None:
        self._folder = folder
        self._recorder = recorder
        self._started = started
        self._iterators: list[tuple[str, Any]] = []  # with the name of the loader

    def know(self, iterator: Any, loader: str) -> None:
        """Take note of an iterator.

        Args:
            iterator: A loader's own.
            loader: The loader's name, if there are several.
        """
        self._iterators.append((loader, iterator))
        for number, process in enumerate(torch_internals.workers_of(iterator)):
            if process.pid is not None:
                self._recorder.name(process.pid, Worker(number, None, loader=loader).name)
                self._started.own(process.pid)

    def loader_of(self, error: BaseException) -> str:
        """The name of the loader whose iterator raised, if there are several."""
        raised = torch_internals.iterator_in(error)
        return next((name for name, each in self._iterators if each is raised), "")

    def wait_for_a_death(self) -> bool:
        """Whether a worker has died, giving a dying one the time to be dead."""
        processes = [process for _, _, process in self._last()]
        if not processes:
            return False
        wait([process.sentinel for process in processes], timeout=_LAST_STEPS)
        return any(exit_code(process) is not None for process in processes)

    def waits_for_the_dead(self) -> bool:
        """Whether a worker is dead that torch still expects a batch from: it looks every 5 s."""
        last = dict(self._iterators).values()
        awaited = [process for each in last for process in torch_internals.awaited_workers(each)]
        return any(exit_code(process) is not None for process in awaited)

    def fates(self, *, where: bool) -> tuple[Worker, ...]:
        """The workers of the last epoch as they stand now.

        Args:
            where: Ask each that still runs for its stack, one after the other.
        """
        found = []
        for loader, number, process in self._last():
            code, pid = exit_code(process), process.pid
            asked = where and code is None and pid is not None
            stack = stacks.ask(self._folder, pid) if asked and pid is not None else None
            worker = Worker(number, code, stack, loader)
            if pid is not None and code:
                self._recorder.died(pid, worker.fate)
            found.append(worker)
        return tuple(found)

    def ignore_deaths(self) -> None:
        """From now on torch raises no more when a worker dies."""
        for _, iterator in self._iterators:
            torch_internals.forget_workers(iterator)

    def end(self, *, kindly: bool) -> None:
        """End the workers of every iterator.

        Args:
            kindly: Let those that are idle leave by themselves first.
        """
        for _, iterator in self._iterators:
            if kindly:
                with suppress(DeadlinePassed), deadline(_GRACE):
                    torch_internals.shut_down(iterator)
            torch_internals.abandon(iterator)
        self._iterators.clear()
        remove_temporary_folders(self._folder)

    def _last(self) -> Iterator[tuple[str, int, BaseProcess]]:
        # Of each loader, those of its last iterator: loader, number, process.
        for loader, iterator in dict(self._iterators).items():
            for number, process in enumerate(torch_internals.workers_of(iterator)):
                yield loader, number, process


def exit_code(process: BaseProcess) -> int | None:
    """The exit code of a process, or None while it runs."""
    # A process that ends closes its descriptors, and with them its sentinel, before it can be
    # reaped: join() waits for that moment, `exitcode` alone does not.
    if wait([process.sentinel], timeout=0):
        process.join(_GRACE)
    return process.exitcode
