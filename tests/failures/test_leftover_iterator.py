"""Test that a caught error keeps workers alive, unless you drop the error's traceback."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from multiprocessing import active_children
from multiprocessing.process import BaseProcess

import pytest
from torch.utils.data import _utils

from dltutor.failures import leftover_iterator
from dltutor.failures.leftover_iterator import train, train_and_let_go
from dltutor.failures.tools.sign import Finding

# These tests don't use `observe`, because it holds every iterator itself.
pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture(autouse=True)
def collected_when_we_say() -> Iterator[None]:
    """Turn off automatic garbage collection, so that only the test collects garbage."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def terminated(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Return a list that gets the pid of each worker that torch terminates."""
    pids: list[int | None] = []
    terminate = BaseProcess.terminate

    def terminate_and_tell(process: BaseProcess) -> None:
        pids.append(process.pid)
        terminate(process)

    monkeypatch.setattr(BaseProcess, "terminate", terminate_and_tell)
    return pids


def test_the_workers_live_until_a_collection_waits_for_each_in_vain(
    terminated: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_utils, "MP_STATUS_CHECK_INTERVAL", 0.5)  # seconds, usually 5
    found = train(leftover_iterator.broken().loader)
    assert found == Finding(2, "of 2 workers alive after the epoch")
    left = active_children()
    began = time.perf_counter()
    gc.collect()
    assert time.perf_counter() - began >= 2 * 0.5
    assert set(terminated) == {worker.pid for worker in left}
    assert len(left) == 2
    for worker in left:
        worker.join(10)  # because older versions of torch don't join workers that they terminate


def test_without_its_traceback_the_error_holds_nothing(terminated: list[int | None]) -> None:
    found = train_and_let_go(leftover_iterator.broken().loader)
    assert found == Finding(0, "of 2 workers alive after the epoch")
    gc.collect()
    assert not terminated
