"""After the loop returns, how many workers are left that nothing needs?

Run the loop again, in a process that keeps no iterator of its own. If workers are still alive
afterward, find out whether an exception holds their iterator, or the garbage collector frees it. If
neither is the case, your own code keeps the iterator, and may still need the workers.
"""

from __future__ import annotations

import gc
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import active_children
from typing import Any, Final

import psutil

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import count_of
from dltutor.observation import errors, torch_internals
from dltutor.observation.foreign import is_a
from dltutor.observation.loaders import inner_loaders
from dltutor.observation.time_limits import deadline

_CALLS: Final = 4  # calls to the loop, to see whether threads pile up in workers that stay
_LOOK: Final = 0.05  # seconds between two looks at the workers
_ALIKE: Final = 5  # consecutive thread counts that have to agree
_SETTLED: Final = 1.0  # seconds that workers get to exit, or to start threads


@dataclass(frozen=True)
class Leftover:
    """The workers that are alive after the loop has returned, and what kept their iterators.

    Args:
        alive: How many workers were left after the loop had run once.
        again: How many workers were left after the loop ran once more, or 0 if that isn't known.
        freed: How many of the workers' iterators the garbage collector freed.
        held: How many of the workers' iterators an exception still held after the collection.
        kind: The type of an exception that held one of the iterators, or "" if none did.
        threads: How many threads the persistent workers had in all, after each of four calls to the
            loop. Empty if there weren't four calls, or if other workers were left.
    """

    alive: int = 0
    again: int = 0
    freed: int = 0
    held: int = 0
    kind: str = ""
    threads: tuple[int, ...] = ()

    def __str__(self) -> str:
        said = f"{count_of(self.alive, 'worker')}."
        if self.threads:
            counts = ", ".join(map(str, self.threads))
            said += f" The workers that stay have {counts} threads after successive calls."
        return said


def needed(evidence: Evidence) -> bool:
    """Return whether your loop may leave workers, or persistent workers iterate a stream."""
    parts, run = evidence.parts, evidence.run
    if not parts.workers or run.end != "finished":
        return False
    leaves = run.stopped < len(run.finished) or run.others > 0
    return (parts.loop and leaves) or (parts.persistent and parts.stream)


def ask(subject: Subject) -> Leftover:
    """Run the loop, and find the workers that are still alive and what keeps their iterators."""
    loop, results = subject.loop or _one_epoch, list[Any]()
    subject.change(method="fork")
    iterators: list[tuple[weakref.ref[Any], set[int | None]]] = []

    def noted(loader: Any, make: torch_internals.MakeIterator) -> Any:
        iterator = make()
        iterators.append((weakref.ref(iterator), _pids(iterator)))
        return iterator

    def alive() -> list[Any]:
        # Call the loop once more, and return the workers left over from this and all earlier calls.
        with torch_internals.intercepted(noted):
            results.append(loop(subject.loader))
        kept = map(torch_internals.kept_iterator, inner_loaders(subject.loader).values())
        wanted = {pid for each in kept for pid in _pids(each)}
        threads.append(_threads_of(wanted))
        own = {pid for _, pids in iterators for pid in pids} - wanted
        until = time.monotonic() + _SETTLED
        while True:
            found = [process for process in active_children() if process.pid in own]
            if not found or time.monotonic() > until:
                return found
            time.sleep(_LOOK)

    found: list[Any] = []
    again: list[Any] = []
    threads: list[int] = []
    until = time.monotonic() + subject.seconds - 3
    with suppress(BaseException):  # including DeadlinePassed, which isn't an Exception
        with deadline(until - time.monotonic()):
            found = alive()
        if found:
            with deadline(max(until - time.monotonic(), 1.0)):
                again = alive()
        while threads[-1] and len(threads) < _CALLS and not found:
            with deadline(max(until - time.monotonic(), 1.0)):
                alive()
    if not found:
        return Leftover(threads=tuple(threads) if len(threads) == _CALLS else ())
    counts = len(found), len(again)
    found = again or found
    left = [each for each, pids in iterators if pids & {process.pid for process in found}]
    # Kill the workers, so that the collector can free their iterators right away.
    for each in left:
        torch_internals.forget_workers(each())
    for process in found:
        process.kill()
        process.join(2)
    kinds = _holding(left)
    gc.collect()
    held = sum(each() is not None for each in left)
    still = _holding(left)
    results.clear()
    return Leftover(
        alive=counts[0],
        again=counts[1],
        freed=len(left) - held,
        held=len(still),
        kind=next(iter([*still.values(), *kinds.values()]), ""),
    )


def _one_epoch(loader: Any) -> None:
    for _ in loader:
        pass


def _threads_of(pids: set[int | None]) -> int:
    # Wait until the count is steady, because a worker may still be starting threads.
    counts = [0]
    for _ in range(round(_SETTLED / _LOOK)):
        counts.append(sum(psutil.Process(pid).num_threads() for pid in pids))
        if counts[-1:] * _ALIKE == counts[-_ALIKE:]:
            break
        time.sleep(_LOOK)
    return counts[-1]


def _pids(iterator: Any) -> set[int | None]:
    return {worker.pid for worker in torch_internals.workers_of(iterator)}


def _holding(left: list[weakref.ref[Any]]) -> dict[int, str]:
    # For each iterator that a traceback holds, return the exception's type by the iterator's id.
    found: dict[int, str] = {}
    for error in [each for each in gc.get_objects() if is_a(each, BaseException)]:
        with suppress(Exception):
            for each in errors.chain(error):
                iterator = torch_internals.iterator_in(each)
                if iterator is not None and any(ref() is iterator for ref in left):
                    found[id(iterator)] = type(each).__name__
    return found


EXPERIMENT: Final = probe("leftover", 12.0, needed, ask)
