"""A lock that a thread of main held at the moment of the fork."""

from __future__ import annotations

import threading

from dltutor.failures import held_lock
from dltutor.failures.held_lock import own_cache, train
from dltutor.observation import observe


def test_main_gets_its_lock_back_and_its_thread_ends() -> None:
    before = set(threading.enumerate())
    case = held_lock.broken()
    observation = observe(case.loader, consume=case.consume, deadline=3)
    assert observation.end == "hung"
    assert not held_lock.CACHE.lock.locked()
    assert set(threading.enumerate()) <= before


def test_both_workers_stand_at_the_lock() -> None:
    case = held_lock.broken()
    observation = observe(case.loader, consume=case.consume, deadline=3)
    assert [worker.stack[0].code for worker in observation.workers if worker.stack] == [
        "with self.lock:",
        "with self.lock:",
    ]


def test_a_lock_that_nobody_holds_at_the_fork_does_no_harm() -> None:
    held_lock.CACHE.get("before the fork", lambda key: [len(key)])
    assert observe(held_lock.broken().loader, deadline=20).end == "finished"


def test_without_workers_the_loop_waits_for_the_thread_and_goes_on() -> None:
    observation = observe(held_lock.broken(workers=0).loader, consume=train, deadline=20)
    assert observation.end == "finished"


def test_a_worker_s_own_cache_is_not_main_s() -> None:
    before = held_lock.CACHE
    try:
        before.lock.acquire()
        own_cache(0)
        assert held_lock.CACHE.get("free", lambda key: [4]) == [4]
    finally:
        before.lock.release()
        held_lock.CACHE = before
