"""The notice of a worker's death waits where it would do harm, and comes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from multiprocessing import queues

import pytest

from dltutor.observation.deaths import delay_in_plumbing


@pytest.fixture
def told() -> Iterator[list[float]]:
    """When the handler that was there before is called."""
    times: list[float] = []
    before = signal.signal(signal.SIGCHLD, lambda signum, frame: times.append(time.monotonic()))
    delay_in_plumbing()
    yield times
    signal.signal(signal.SIGCHLD, before)


def test_elsewhere_the_notice_comes_at_once(told: list[float]) -> None:
    os.kill(os.getpid(), signal.SIGCHLD)
    assert len(told) == 1


def test_in_the_plumbing_it_comes_after_it(told: list[float]) -> None:
    in_queues = compile(
        "def transfer(work):\n    work()\n", queues.__file__, "exec"
    )  # a frame that stands in multiprocessing
    names: dict[str, object] = {}
    exec(in_queues, names)
    during: list[int] = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGCHLD)
        time.sleep(0.05)
        during.append(len(told))

    # The innermost frame that is anybody's decides: `work` must not count as the learner's.
    work.__code__ = work.__code__.replace(co_filename=queues.__file__)
    names["transfer"](work)  # type: ignore[operator]
    assert during == [0]
    until = time.monotonic() + 10
    while not told and time.monotonic() < until:
        time.sleep(0.01)
    assert told


def test_it_is_arranged_once_only(told: list[float]) -> None:
    handler = signal.getsignal(signal.SIGCHLD)
    delay_in_plumbing()
    assert signal.getsignal(signal.SIGCHLD) is handler


def test_without_a_handler_there_is_nothing_to_delay() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        delay_in_plumbing()
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, before)
