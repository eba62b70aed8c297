"""Check that a deadline interrupts main, and restores SIGALRM's handler and timer.

test_observe.py tests the deadline of runs that are stuck, and of a loop that swallows every
exception.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from own_process import until

from dltutor.observation.time_limits import DeadlinePassed, deadline


@pytest.fixture(autouse=True)
def alarm_is_given_back() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) == handler


def test_who_is_in_time_is_not_interrupted() -> None:
    with pytest.raises(KeyError), deadline(0.2):
        raise KeyError
    time.sleep(0.3)


@pytest.mark.parametrize("seconds", [1e-9, 1e-6, 1e-4])
def test_even_the_shortest_is_entered_and_left_in_order(seconds: float) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    for _ in range(20):
        with suppress(DeadlinePassed), deadline(seconds):
            for _ in range(100):
                pass
        assert signal.getsignal(signal.SIGALRM) == handler
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    with pytest.raises(DeadlinePassed), deadline(seconds):
        time.sleep(1000)


def test_the_timer_of_an_outer_user_goes_on_and_keeps_its_handler() -> None:
    rang: list[float] = []
    old = signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.4, 60)
    try:
        with deadline(30):
            time.sleep(0.1)
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 0.3 and interval == 60
        until(lambda: rang)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    [moment] = rang
    assert moment - started >= 0.4


def test_an_outer_timer_that_is_overdue_rings_at_once_afterwards() -> None:
    rang: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda signum, _: rang.append(signum))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with deadline(30):
            time.sleep(0.3)
            assert not rang
        time.sleep(0.2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert rang == [signal.SIGALRM]


def test_of_two_the_inner_may_pass_and_the_outer_goes_on() -> None:
    with pytest.raises(DeadlinePassed), deadline(0.5):
        with pytest.raises(DeadlinePassed), deadline(0.1):
            time.sleep(1000)
        time.sleep(1000)
