"""Test that workers hang at a lock only if a thread of main held it when main forked them."""

from __future__ import annotations

import threading

from dltutor.failures import held_lock
from dltutor.observation import observe


def test_the_workers_stand_at_the_lock_and_main_gets_it_back() -> None:
    before = set(threading.enumerate())
    case = held_lock.broken()
    observation = observe(case.loader, consume=case.consume, deadline=3)
    stood = [worker.stack[0].code for worker in observation.workers if worker.stack]
    assert stood == ["with self.lock:"] * 2
    assert not held_lock.CACHE.lock.locked()
    assert set(threading.enumerate()) <= before


def test_a_lock_that_nobody_holds_at_the_fork_does_no_harm() -> None:
    held_lock.CACHE.get("before the fork", lambda key: [len(key)])
    assert observe(held_lock.broken().loader, deadline=20).end == "finished"
