"""Find what a stuck thread may be waiting for, and how to free it.

The search starts from the variables and the globals that the thread's frames use, and follows what
these hold.
"""

from __future__ import annotations

import queue
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Final

from dltutor.diagnosis.objects import walking
from dltutor.diagnosis.objects.walking import Found
from dltutor.diagnosis.running.names import named, near
from dltutor.observation.foreign import attribute, is_a

_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_WAITING: Final = ("/threading.py", "/queue.py", "/concurrent/futures/_base.py")
# How the names of dltutor's and multiprocessing's threads begin.
_OURS: Final = ("dltutor", "QueueFeeder")
_MOST: Final = 400  # the most objects to look at in one search


@dataclass(frozen=True)
class Cause:
    """A possible cause of a wait that no other thread of this process will end.

    Args:
        kind: "lock", "executor", "thread", or "answer" (the result of a thread).
        path: The name of the lock, executor, or thread.
        by: The file whose code waits.
        remove: A function that removes the cause.
    """

    kind: str
    path: str
    by: str
    remove: Callable[[], object]


def causes(
    frames: Sequence[FrameType],
    roots: Sequence[Found],
    others: Sequence[threading.Thread],
) -> Iterator[Cause]:
    """Yield what a thread may be waiting for, the most likely cause first.

    Args:
        frames: The frames of the waiting thread, the innermost first.
        roots: The objects to search for the names of locks, threads, and executors.
        others: The parent process's threads at the time of the fork.
    """
    # Skip the standard library's frames to find the code that waits.
    files = [each.f_code.co_filename for each in frames]
    own = next((at for at, file in enumerate(files) if not file.endswith(_WAITING)), 0)
    waited_for = [each.f_locals.get("self") for each in frames[:own]]
    by = files[own] if files else ""
    lost = [each for each in others if not each.is_alive() and not each.name.startswith(_OURS)]
    for each in waited_for:
        if held(each) or is_a(each, threading.Semaphore):
            name = named(roots, each) or type(each).__name__
            yield Cause("lock", name, by, partial(_release, each))
    if own == 0:  # waiting for a lock or a SimpleQueue adds no Python frame
        for frame in frames[:2]:
            for path, lock in _around(frame, held):
                yield Cause("lock", named(roots, lock) or path, by, partial(_release, lock))
    for frame in frames[own : own + 3]:
        for path, each in _around(frame, _has_lost_threads):
            name = named(roots, each) or path
            yield Cause("executor", name, by, partial(start_threads, each))
    at_hand = [each for frame in frames[own : own + 3] for each in _at_hand(frame)]
    mine = {id(each) for each in [*waited_for, *at_hand] if _is_telling(each)}
    for thread in lost:
        if any(id(each.thing) in mine for each in near([Found("", thread)], _MOST)):
            name = named(roots, thread) or thread.name
            yield Cause("thread", name, by, partial(restart, thread))
            yield Cause("answer", name, by, partial(supply, waited_for, at_hand))


def locks_in(roots: Sequence[Found]) -> list[Any]:
    """Return the locks, conditions, and semaphores among the root objects and what they hold."""
    kinds = (*_LOCKS, threading.Condition, threading.Semaphore)
    return [each.thing for each in near(roots) if is_a(each.thing, kinds)]


def held_in(roots: Sequence[Found]) -> list[str]:
    """Return the paths of the locks that the root objects reach and that are held (see `held`)."""
    return [each.path for each in near(roots) if held(each.thing)]


def held(thing: Any) -> bool:
    """Return whether an object is a lock that a thread holds, or a semaphore that has run out.

    If the main thread calls this function, an RLock that the main thread holds doesn't count.
    """
    if is_a(thing, threading.Condition):
        thing = attribute(thing, "_lock")
    if is_a(thing, threading.Semaphore):
        return bool(attribute(thing, "_value", 1) == 0)
    if not is_a(thing, _LOCKS):
        return False
    if hasattr(thing, "_is_owned") and thing._is_owned():
        # If the calling thread is a witness (see witness.py), the real owner is a thread that the
        # fork didn't copy. A witness never keeps an RLock, but may get the lost thread's id. If the
        # main thread owns the lock, no other thread does.
        return threading.current_thread() is not threading.main_thread()
    if hasattr(thing, "locked"):
        return bool(thing.locked())
    if thing.acquire(blocking=False):  # an RLock has no locked() before Python 3.14
        thing.release()
        return False
    return True


def _release(lock: Any) -> None:
    if is_a(lock, threading.Condition):
        lock = attribute(lock, "_lock")
    if hasattr(lock, "_release_save"):
        lock._release_save()  # an RLock's _release_save() doesn't check the owner
    else:
        lock.release()


def start_threads(executor: Any) -> None:
    """Start new threads in an executor, and give them its waiting tasks."""
    old, new = executor._work_queue, queue.SimpleQueue[Any]()
    with suppress(queue.Empty):
        while True:
            new.put(old.get_nowait())
    executor._work_queue = new
    executor._threads.clear()
    executor._idle_semaphore = threading.Semaphore(0)
    for _ in range(max(new.qsize(), 1)):
        executor._adjust_thread_count()


def restart(thread: Any) -> None:
    """Start a new thread with the code of a thread that the fork didn't copy."""
    if type(thread).run is not threading.Thread.run:
        threading.Thread(target=type(thread).run, args=(thread,), daemon=True).start()
    elif getattr(thread, "_target", None) is not None:
        target, args, kwargs = thread._target, thread._args, thread._kwargs
        threading.Thread(target=target, args=args, kwargs=kwargs, daemon=True).start()


def supply(waited_for: Sequence[Any], at_hand: Sequence[Any]) -> None:
    """Give None to the queues and futures that a thread waits for, and set its events.

    Args:
        waited_for: The objects in whose methods the thread waits.
        at_hand: Objects in the thread's variables. If `waited_for` is empty, their SimpleQueues
            get a None.
    """
    for each in waited_for or [each for each in at_hand if is_a(each, queue.SimpleQueue)]:
        with suppress(Exception):
            if is_a(each, threading.Event):
                each.set()
            elif is_a(each, Future):
                each.set_result(None)
            elif is_a(each, (queue.Queue, queue.SimpleQueue)):
                each.put_nowait(None)


def _has_lost_threads(thing: Any) -> bool:
    if not is_a(thing, ThreadPoolExecutor):
        return False
    threads = thing._threads
    return bool(threads) and not any(each.is_alive() for each in threads)


def _at_hand(frame: FrameType) -> list[Any]:
    found = list(frame.f_locals.values())
    for each in list(found):
        found += [part.thing for part in walking.held(Found("", each))]
    return found


def _is_telling(thing: Any) -> bool:
    # Leave out objects that a thread and a frame may both hold by chance.
    plain = (type, types.ModuleType, types.FunctionType, str, bytes, int, float, type(None))
    return not is_a(thing, plain)


def _around(frame: FrameType, wanted: Callable[[Any], bool]) -> list[tuple[str, Any]]:
    # Search the variables of a frame, the globals that its code names, and what both hold.
    starts = [Found(*each) for each in frame.f_locals.items()]
    names = frame.f_code.co_names
    starts += [Found(name, frame.f_globals[name]) for name in names if name in frame.f_globals]
    return [(each.path, each.thing) for each in near(starts, _MOST) if wanted(each.thing)]
